// 16 lanes of f32 as one AVX-512 register; simd_generic.h says what each function means. Only for
// files named
// *_avx512.cc, and nothing here calls a shared inline function (see simd_avx2.h).
#pragma once
#ifndef __clang__  // g++ 12 warns about its own _mm512_undefined_ps() (GCC bug 105593)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#ifndef __clang__
#pragma GCC diagnostic pop
#endif

#include <cstdint>

#include "quant/bf16.h"

namespace hocket::kernels {

struct Avx512Lanes {
  struct F {
    __m512 v;
  };
  static constexpr int kAccumulators = 16;

  static F all(float value) { return {_mm512_set1_ps(value)}; }
  static F load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static F load_first(const float* from, int64_t n, float rest) {
    return {_mm512_mask_loadu_ps(_mm512_set1_ps(rest), first(n), from)};
  }
  static F load(const quant::Bf16* from) {
    return {widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
  }
  static F load_split(const quant::Bf16* from) { return load(from); }
  static F join(F a) { return a; }
  static F split(F a) { return a; }
  static F load_first(const quant::Bf16* from, int64_t n, float rest) {
    const __m512 wide = widen(_mm256_maskz_loadu_epi16(first(n), from));
    return {_mm512_mask_mov_ps(_mm512_set1_ps(rest), first(n), wide)};
  }
  static void store(float* to, F a) { _mm512_storeu_ps(to, a.v); }
  static void store_first(float* to, F a, int64_t n) { _mm512_mask_storeu_ps(to, first(n), a.v); }
  static void store(quant::Bf16* to, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow(a.v));
  }
  static void store_first(quant::Bf16* to, F a, int64_t n) {
    _mm256_mask_storeu_epi16(to, first(n), narrow(a.v));
  }
  static F add(F a, F b) { return {_mm512_add_ps(a.v, b.v)}; }
  static F sub(F a, F b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static F mul(F a, F b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static F div(F a, F b) { return {_mm512_div_ps(a.v, b.v)}; }
  static F fma(F a, F b, F c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  static F fnma(F a, F b, F c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }
  static F max(F a, F b) { return {_mm512_max_ps(a.v, b.v)}; }
  static F min(F a, F b) { return {_mm512_min_ps(a.v, b.v)}; }
  static F abs(F a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0F), a.v)}; }
  static F if_less(F x, float limit, F a, F b) {
    const __mmask16 mask = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(limit), _CMP_LT_OQ);
    return {_mm512_mask_mov_ps(b.v, mask, a.v)};
  }
  static F times_power(F a, F shifted) {
    const __m512i power = _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23);
    return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), power))};
  }
  static F round_to_four_bits(F a) {
    const __m512i bits = _mm512_castps_si512(a.v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 20), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFFF)));
    return {_mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(-0x100000)))};
  }
  static F with_sign(F magnitude, F sign) {
    const __m512 mask = _mm512_set1_ps(-0.0F);
    return {_mm512_or_ps(_mm512_andnot_ps(mask, magnitude.v), _mm512_and_ps(sign.v, mask))};
  }
  /// Not _mm512_reduce_add_ps: its order is the compiler's choice.
  static float sum(F a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  static float largest(F a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }

 private:
  static __mmask16 first(int64_t n) {
    return n >= 16 ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1U << n) - 1);
  }
  static __m512 widen(__m256i bf16) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
  }
  /// As quant::to_bf16. Not vcvtneps2bf16: it flushes denormals whatever the control word says.
  static __m256i narrow(__m512 a) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF))), 16);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    const __m512i out = _mm512_mask_or_epi32(rounded, is_nan, high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(out);
  }
};

}  // namespace hocket::kernels
