// AVX-512 with bf16 products: vdpbf16ps takes a pair of every output at once, weights straight from memory.
#include "kernels/cpu/gemm_avx512.h"
#include "kernels/cpu/gemm_impl.h"
#include "kernels/cpu/gemm_tables.h"

namespace hocket::kernels {
namespace {

struct Avx512Bf16 {
  using Unit = uint32_t;  ///< a pair of bf16
  using Vec = __m512;
  static constexpr int kSteps = 1;
  static constexpr int kColumns = 1024;
  static constexpr int kPanelPairBytes = 64;
  static constexpr int kPrefetchRows = 3;
  static constexpr int kDirectTiles = 8;

  // 32 registers: 6x4 leaves room for the weights of four tiles and a broadcast value.
  static constexpr int rows(Source s) { return s == Source::fp8 ? 4 : 6; }
  static constexpr int tiles(Source s, int rows) { return rows == 1 && s != Source::panel ? 8 : 4; }
  /// Only e4m3 is widened first, from so many rows; bf16 needs no widening.
  static constexpr int panel_rows(Source s) { return s == Source::fp8 ? 5 : kMaxBlockRows + 1; }
  static constexpr int panel_tiles() { return 4; }

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vec v) { _mm512_storeu_ps(to, v); }
  static void put(std::byte* to, __m512i pairs) { _mm512_storeu_si512(to, pairs); }
  static void prefetch(const std::byte* w) {
    _mm_prefetch(reinterpret_cast<const char*>(w) + 1024, _MM_HINT_T0);
  }

  template <Source S>
  static __m512i fetch(const std::byte* w, int) {
    if constexpr (S != Source::fp8) return _mm512_loadu_si512(w);
    // As 16-bit numbers: sign, then (magnitude << 4) + (120 << 7), except for the eight subnormal magnitudes.
    const __m512i codes = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
    const __m512i magnitude = _mm512_and_si512(codes, _mm512_set1_epi16(0x7F));
    const __m512i sign = _mm512_slli_epi16(_mm512_xor_si512(codes, magnitude), 8);
    const __m512i normal = _mm512_add_epi16(_mm512_slli_epi16(magnitude, 4), _mm512_set1_epi16(120 << 7));
    const __m512i subnormals = _mm512_broadcast_i32x4(
        _mm_setr_epi16(0, 0x3B00, 0x3B80, 0x3BC0, 0x3C00, 0x3C20, 0x3C40, 0x3C60));  // 0..7 times 2^-9
    const __mmask32 small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(8));
    return _mm512_or_si512(sign, _mm512_mask_permutexvar_epi16(normal, small, magnitude, subnormals));
  }
  template <Source>
  static __m512i exact(__m512i pairs) {
    return pairs;
  }
  static Vec fma(const uint32_t* x, __m512i w, Vec acc) {
    const __m512i pair = _mm512_set1_epi32(static_cast<int>(*x));
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(pair), reinterpret_cast<__m512bh>(w));
  }
  static Vec scale(float by, Vec v, Vec to) { return _mm512_fmadd_ps(_mm512_set1_ps(by), v, to); }
  template <Source>
  static void widen(const quant::Bf16* from, int count, uint32_t* to) {
    int k = 0;
    for (; k + 32 <= count; k += 32) _mm512_storeu_si512(to + k / 2, _mm512_loadu_si512(from + k));
    if (k == count) return;
    const int left = count - k, pairs = (left + 1) / 2;
    const __m512i last = _mm512_maskz_loadu_epi16((1U << left) - 1, from + k);
    _mm512_mask_storeu_epi32(to + k / 2, static_cast<__mmask16>((1 << pairs) - 1), last);
  }
};

}  // namespace

const GemmKernels kGemmAvx512Bf16 = {Gemm<Avx512Bf16, Source::bf16>::block,
                                     Gemm<Avx512Bf16, Source::fp8>::block};

}  // namespace hocket::kernels
