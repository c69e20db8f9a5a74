// Denormal numbers are zero in every kernel: the bits of a result must not depend on the thread
// that computed it.
#pragma once
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace hocket::device::cpu {

/// While it lives, this thread flushes denormal results to zero and reads denormal inputs as zero
/// (MXCSR FTZ, DAZ).
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }
#else
  FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_ = 0;
};

}  // namespace hocket::device::cpu
