#include <immintrin.h>

#include "comm/rows_loops.inl"

namespace hocket::comm {
namespace {

__m256 load8(const quant::Bf16* from) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

/// Two tiles of sums stay in registers over all rows. n is a multiple of 16 (Config::hidden).
void weighted_sum(float* out, const quant::Bf16* const* y, const float* weights, int rows, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    __m256 low = _mm256_setzero_ps(), high = _mm256_setzero_ps();
    for (int r = 0; r < rows; ++r) {
      const __m256 w = _mm256_set1_ps(weights[r]);
      low = _mm256_fmadd_ps(w, load8(y[r] + i), low);
      high = _mm256_fmadd_ps(w, load8(y[r] + i + 8), high);
    }
    _mm256_storeu_ps(out + i, low);
    _mm256_storeu_ps(out + i + 8, high);
  }
}

}  // namespace

extern const RowOps kRowOpsAvx2 = {quantise, widen, weighted_sum};

}  // namespace hocket::comm
