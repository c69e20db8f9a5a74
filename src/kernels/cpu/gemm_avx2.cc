// AVX2 and FMA: a vector of 16 outputs is two registers; products of pairs are two f32 multiplies.
#include <immintrin.h>

#include "kernels/cpu/gemm_impl.h"
#include "kernels/cpu/gemm_tables.h"

namespace hocket::kernels {
namespace {

struct Avx2 {
  using Unit = float;
  static constexpr int kSteps = 2;
  static constexpr int kColumns = 256;
  static constexpr int kPanelPairBytes = 128;
  static constexpr int kPrefetchRows = 3;
  static constexpr int kDirectTiles = 4;
  struct Vec {
    __m256 lo, hi;
  };

  // 16 registers: 6x1 leaves room for the weights of one step, a broadcast value and a mask.
  static constexpr int rows(Source s) { return s == Source::fp8 ? 4 : 6; }
  static constexpr int tiles(Source s, int rows) {
    if (s == Source::panel) return 1;
    return rows == 1 ? 4 : rows == 2 ? 2 : 1;
  }
  /// bf16 is widened in registers for any number of rows: that costs next to nothing beside 6 rows of products.
  static constexpr int panel_rows(Source s) { return s == Source::fp8 ? 5 : kMaxBlockRows + 1; }
  static constexpr int panel_tiles() { return 1; }

  static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
  static void store(float* to, Vec v) {
    _mm256_storeu_ps(to, v.lo);
    _mm256_storeu_ps(to + 8, v.hi);
  }
  static void put(std::byte* to, Vec v) { store(reinterpret_cast<float*>(to), v); }
  static void prefetch(const std::byte* w) {
    _mm_prefetch(reinterpret_cast<const char*>(w) + 1024, _MM_HINT_T0);
  }

  template <Source S>
  static Vec fetch(const std::byte* w, int s) {
    if constexpr (S == Source::panel) return load(reinterpret_cast<const float*>(w + s * 64));
    const auto* from = reinterpret_cast<const __m256i*>(w);
    if constexpr (S == Source::bf16) return {bf16(_mm256_loadu_si256(from), s), bf16(_mm256_loadu_si256(from + 1), s)};
    // e4m3 to half by moving bits: exact, also for subnormals, but 2^8 too small; widen() makes up for it.
    const __m256i pairs = _mm256_loadu_si256(from);
    const __m256i high = s == 0 ? pairs : _mm256_slli_epi16(pairs, 8);
    const __m256i half = _mm256_and_si256(_mm256_srai_epi16(high, 1), _mm256_set1_epi16(static_cast<short>(0xBF80)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)), _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }
  template <Source S>
  static Vec exact(Vec v) {
    const __m256 gain = _mm256_set1_ps(kGain<S>);
    return {_mm256_mul_ps(v.lo, gain), _mm256_mul_ps(v.hi, gain)};
  }
  static Vec fma(const float* x, Vec w, Vec acc) { return scale(*x, w, acc); }
  static Vec scale(float by, Vec v, Vec to) {
    const __m256 factor = _mm256_set1_ps(by);
    return {_mm256_fmadd_ps(factor, v.lo, to.lo), _mm256_fmadd_ps(factor, v.hi, to.hi)};
  }
  template <Source S>
  static void widen(const quant::Bf16* from, int count, float* to) {
    int k = 0;
    for (; k + 8 <= count; k += 8) {
      const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + k));
      const __m256 wide = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
      _mm256_storeu_ps(to + k, _mm256_mul_ps(wide, _mm256_set1_ps(kGain<S>)));
    }
    for (; k < count; ++k) {
      const __m128i one = _mm_cvtsi32_si128(static_cast<int>(uint32_t{from[k].bits} << 16));
      to[k] = _mm_cvtss_f32(_mm_castsi128_ps(one)) * kGain<S>;
    }
    if (count % 2 != 0) to[count] = 0;
  }

 private:
  template <Source S>
  static constexpr float kGain = S == Source::fp8 ? 256.0F : 1.0F;
  static __m256 bf16(__m256i pairs, int s) {
    const __m256i odd = _mm256_set1_epi32(static_cast<int>(0xFFFF0000));
    return _mm256_castsi256_ps(s == 0 ? _mm256_and_si256(pairs, odd) : _mm256_slli_epi32(pairs, 16));
  }
};

}  // namespace

const GemmKernels kGemmAvx2 = {Gemm<Avx2, Source::bf16>::block, Gemm<Avx2, Source::fp8>::block};

}  // namespace hocket::kernels
