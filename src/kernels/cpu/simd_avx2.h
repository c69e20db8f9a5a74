// 16 lanes of f32 as two AVX2 registers; simd_generic.h says what each function means. Only for
// files named *_avx2.cc. Nothing here calls a shared inline function: compiled here, its AVX2 code
// could be the copy that the linker keeps for processors without AVX2.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "quant/bf16.h"

namespace hocket::kernels {

struct Avx2Lanes {
  struct F {
    __m256 lo, hi;
  };
  static constexpr int kAccumulators = 6;

  static F all(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static F load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static F load_first(const float* from, int64_t n, float rest) {
    alignas(32) float lanes[16];
    for (int i = 0; i < 16; ++i) lanes[i] = i < n ? from[i] : rest;
    return load(lanes);
  }
  static F load(const quant::Bf16* from) {
    const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {widen(_mm256_castsi256_si128(both)), widen(_mm256_extracti128_si256(both, 1))};
  }
  /// Even elements in lo, odd ones in hi: a shift and a mask, where load() must also spread 16 bits
  /// to 32.
  static F load_split(const quant::Bf16* from) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(-0x10000)))};
  }
  static F join(F a) {
    const __m256 low = _mm256_unpacklo_ps(a.lo, a.hi),
                 high = _mm256_unpackhi_ps(a.lo, a.hi);  // within 128-bit halves
    return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
  }
  static F split(F a) {
    const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a.lo, a.hi, 0x88));
    const __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(a.lo, a.hi, 0xDD));
    return {_mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xD8)),
            _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xD8))};
  }
  static F load_first(const quant::Bf16* from, int64_t n, float rest) {
    alignas(32) quant::Bf16 lanes[16] = {};
    for (int i = 0; i < 16 && i < n; ++i) lanes[i].bits = from[i].bits;
    const F wide = load(lanes);
    if (rest == 0.0F) return wide;
    alignas(32) float out[16];
    store(out, wide);
    return load_first(out, n, rest);
  }
  static void store(float* to, F a) {
    _mm256_storeu_ps(to, a.lo);
    _mm256_storeu_ps(to + 8, a.hi);
  }
  static void store_first(float* to, F a, int64_t n) {
    alignas(32) float lanes[16];
    store(lanes, a);
    for (int i = 0; i < 16 && i < n; ++i) to[i] = lanes[i];
  }
  static void store(quant::Bf16* to, F a) {
    const __m256i packed =
        _mm256_packus_epi32(narrow(a.lo), narrow(a.hi));  // packs within 128-bit halves
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xD8));
  }
  static void store_first(quant::Bf16* to, F a, int64_t n) {
    alignas(32) quant::Bf16 lanes[16];
    store(lanes, a);
    for (int i = 0; i < 16 && i < n; ++i) to[i].bits = lanes[i].bits;
  }
  static F add(F a, F b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
  static F sub(F a, F b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
  static F mul(F a, F b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
  static F div(F a, F b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
  static F fma(F a, F b, F c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  static F fnma(F a, F b, F c) {
    return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
  }
  static F max(F a, F b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
  static F min(F a, F b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
  static F abs(F a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
  }
  static F if_less(F x, float limit, F a, F b) {
    const __m256 bound = _mm256_set1_ps(limit);
    return {_mm256_blendv_ps(b.lo, a.lo, _mm256_cmp_ps(x.lo, bound, _CMP_LT_OQ)),
            _mm256_blendv_ps(b.hi, a.hi, _mm256_cmp_ps(x.hi, bound, _CMP_LT_OQ))};
  }
  static F times_power(F a, F shifted) {
    return {times_power(a.lo, shifted.lo), times_power(a.hi, shifted.hi)};
  }
  static F round_to_four_bits(F a) { return {round_to_four_bits(a.lo), round_to_four_bits(a.hi)}; }
  static F with_sign(F magnitude, F sign) {
    const F positive = abs(magnitude);
    const __m256 mask = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(positive.lo, _mm256_and_ps(sign.lo, mask)),
            _mm256_or_ps(positive.hi, _mm256_and_ps(sign.hi, mask))};
  }
  static float sum(F a) {
    const __m256 eight = _mm256_add_ps(a.lo, a.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static float largest(F a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

 private:
  static __m256 widen(__m128i bf16) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bf16), 16));
  }
  /// As quant::to_bf16, in the low half of each 32-bit lane.
  static __m256i narrow(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_srli_epi32(
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256 is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(is_nan));
  }
  static __m256 times_power(__m256 a, __m256 shifted) {
    const __m256i power = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), power));
  }
  static __m256 round_to_four_bits(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFFF)));
    return _mm256_castsi256_ps(_mm256_and_si256(rounded, _mm256_set1_epi32(-0x100000)));
  }
};

}  // namespace hocket::kernels
