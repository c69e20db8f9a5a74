// cos and sin of rotary positions: one scalar routine for every instruction set, without libm,
// whose results may differ between machines.
#pragma once
#include <cstdint>

namespace hocket::kernels {

/// cos[i], sin[i] of the f32 product position * inv_freq[i], for i < count; error below 0.51 units
/// in the last place. REQUIRES: |angle| < 2^20. Pure, thread safe.
void rotary_table(int64_t count, float position, const float* inv_freq, float* cos, float* sin);

}  // namespace hocket::kernels
