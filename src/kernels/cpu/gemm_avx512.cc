// AVX-512 without bf16 products: a vector of 16 outputs is one register; products of pairs are two f32 multiplies.
#include "kernels/cpu/gemm_avx512.h"
#include "kernels/cpu/gemm_impl.h"
#include "kernels/cpu/gemm_tables.h"

namespace hocket::kernels {
namespace {

struct Avx512 {
  using Unit = float;
  using Vec = __m512;
  static constexpr int kSteps = 2;
  static constexpr int kColumns = 128;
  static constexpr int kPanelPairBytes = 128;
  static constexpr int kPrefetchRows = 3;
  static constexpr int kDirectTiles = 8;

  // 32 registers: 6x4 leaves room for the weights of four tiles and a broadcast value.
  static constexpr int rows(Source s) { return s == Source::fp8 ? 4 : 6; }
  static constexpr int tiles(Source s, int rows) { return rows == 1 && s != Source::panel ? 8 : 4; }
  static constexpr int panel_rows(Source s) { return s == Source::fp8 ? 5 : 24; }
  static constexpr int panel_tiles() { return 4; }

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vec v) { _mm512_storeu_ps(to, v); }
  static void put(std::byte* to, Vec v) { store(reinterpret_cast<float*>(to), v); }
  static void prefetch(const std::byte* w) {
    _mm_prefetch(reinterpret_cast<const char*>(w) + 1024, _MM_HINT_T0);
  }

  template <Source S>
  static Vec fetch(const std::byte* w, int s) {
    if constexpr (S == Source::panel) return load(reinterpret_cast<const float*>(w + s * 64));
    if constexpr (S == Source::bf16) {
      const __m512i pairs = _mm512_loadu_si512(w);
      const __m512i odd = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
      return _mm512_castsi512_ps(s == 0 ? _mm512_and_si512(pairs, odd) : _mm512_slli_epi32(pairs, 16));
    }
    // e4m3 to half by moving bits: exact, also for subnormals, but 2^8 too small; widen() makes up for it.
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    const __m256i high = s == 0 ? pairs : _mm256_slli_epi16(pairs, 8);
    const __m256i half = _mm256_and_si256(_mm256_srai_epi16(high, 1), _mm256_set1_epi16(static_cast<short>(0xBF80)));
    return _mm512_cvtph_ps(half);
  }
  template <Source S>
  static Vec exact(Vec v) {
    return _mm512_mul_ps(v, _mm512_set1_ps(kGain<S>));
  }
  static Vec fma(const float* x, Vec w, Vec acc) { return scale(*x, w, acc); }
  static Vec scale(float by, Vec v, Vec to) { return _mm512_fmadd_ps(_mm512_set1_ps(by), v, to); }
  template <Source S>
  static void widen(const quant::Bf16* from, int count, float* to) {
    int k = 0;
    for (; k + 16 <= count; k += 16) {
      _mm512_storeu_ps(to + k, widened<S>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + k))));
    }
    if (k == count) return;
    const int left = count - k;
    const __m256i last = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1 << left) - 1), from + k);
    _mm512_mask_storeu_ps(to + k, static_cast<__mmask16>((1 << (left + left % 2)) - 1), widened<S>(last));
  }

 private:
  template <Source S>
  static constexpr float kGain = S == Source::fp8 ? 256.0F : 1.0F;
  template <Source S>
  static __m512 widened(__m256i bf16) {
    const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16);
    return _mm512_mul_ps(_mm512_castsi512_ps(wide), _mm512_set1_ps(kGain<S>));
  }
};

}  // namespace

const GemmKernels kGemmAvx512 = {Gemm<Avx512, Source::bf16>::block, Gemm<Avx512, Source::fp8>::block};

}  // namespace hocket::kernels
