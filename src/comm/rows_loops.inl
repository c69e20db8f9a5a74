// Loops that rows.cc and rows_avx2.cc both compile for their instruction sets. Everything here has internal linkage and calls
// no inline function of other headers: the linker must not keep one instruction set's copy for all.
#include <cstdint>

#include "comm/rows.h"

namespace hocket::comm {
namespace {

float from_bits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t to_bits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// `yes` or `no` without a branch: compilers do not vectorise a choice between results of float arithmetic.
uint32_t select(bool condition, uint32_t yes, uint32_t no) { return no ^ ((yes ^ no) & (0U - uint32_t{condition})); }

/// Round to nearest even, saturating; NaN stays NaN.
uint32_t e4m3_bits(float value) {
  const uint32_t bits = to_bits(value);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint32_t normal = ((magnitude + 0x7FFFF + (magnitude >> 20 & 1)) >> 20) - (120U << 3);
  // Subnormal codes are multiples of 2^-9, which is the unit in the last place of 2^14.
  const uint32_t subnormal = to_bits(from_bits(magnitude) + 0x1.0p14F) & 0xF;
  uint32_t code = select(magnitude < 0x3C800000, subnormal, normal);  // 2^-6
  code = select(magnitude >= 0x43E00000, 0x7E, code);                 // 448
  code = select(magnitude > 0x7F800000, 0x7F, code);
  return code | (bits >> 24 & 0x80);
}

/// bf16 bits of a code. Normal codes are shifted into place; a subnormal one is 2^-6 * (1 + m/8) - 2^-6.
uint32_t bf16_bits(uint32_t code) {
  const uint32_t magnitude = code & 0x7F;
  const uint32_t normal = to_bits(from_bits((magnitude + (120U << 3)) << 20));
  const uint32_t subnormal = to_bits(from_bits((magnitude | (121U << 3)) << 20) - 0x1.0p-6F);
  uint32_t bits = select(magnitude < 8, subnormal, normal);
  bits = select(magnitude == 0x7F, 0x7FC00000, bits);
  return bits >> 16 | (code & 0x80) << 8;
}

void quantise_block(uint8_t* codes, float* scale, const quant::Bf16* x, int64_t n) {
  uint32_t largest = 0;  // bits of |x| order like the values, NaN above infinity
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t magnitude = x[i].bits & 0x7FFFU;
    largest = magnitude > largest ? magnitude : largest;
  }
  const float amax = from_bits(largest << 16);
  const float s = (amax < 1e-10F ? 1e-10F : amax) / 448.0F;
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = static_cast<uint8_t>(e4m3_bits(from_bits(uint32_t{x[i].bits} << 16) / s));
  }
  *scale = s;
}

void quantise(uint8_t* codes, float* scales, const quant::Bf16* x, int64_t n) {
  constexpr int64_t kBlock = 128;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) quantise_block(codes + i, scales++, x + i, kBlock);
  if (i < n) quantise_block(codes + i, scales, x + i, n - i);
}

void widen(quant::Bf16* values, const uint8_t* codes, int64_t n) {
  for (int64_t i = 0; i < n; ++i) values[i].bits = static_cast<uint16_t>(bf16_bits(codes[i]));
}

}  // namespace
}  // namespace hocket::comm
