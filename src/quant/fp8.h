// FP8 e4m3 (fn) and the 128-blocks of published FP8 checkpoints.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace hocket::quant {

/// Columns that share one scale: activations per token and block, weights per 128x128 block.
inline constexpr int kScaleBlock = 128;
inline constexpr float kE4m3Max = 448.0F;

struct E4m3 {
  uint8_t bits = 0;
};
static_assert(sizeof(E4m3) == 1);

inline bool is_nan(E4m3 code) { return (code.bits & 0x7F) == 0x7F; }
/// Exact; also exact in bf16. Source: OCP 8-bit floating point specification 1.0, E4M3.
inline float to_float(E4m3 code) {
  const uint32_t sign = uint32_t{code.bits} >> 7 << 31;
  const uint32_t exponent = code.bits >> 3 & 15;
  const uint32_t mantissa = code.bits & 7;
  if ((code.bits & 0x7F) == 0x7F) return std::bit_cast<float>(sign | 0x7FC00000);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1.0p-9F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);
}
/// Round to nearest even, saturating at +-448; NaN stays NaN.
inline E4m3 to_e4m3(float value) {
  const auto sign = static_cast<uint8_t>(std::bit_cast<uint32_t>(value) >> 31 << 7);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return {static_cast<uint8_t>(sign | 0x7F)};
  if (magnitude >= kE4m3Max) return {static_cast<uint8_t>(sign | 0x7E)};
  if (magnitude < 0x1.0p-6F) {  // subnormal step 2^-9; adding 2^14 makes the unit in the last place 2^-9
    const float shifted = magnitude + 0x1.0p14F;
    return {static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(shifted) & 0xF))};
  }
  const auto bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = bits + 0x7FFFF + (bits >> 20 & 1);
  return {static_cast<uint8_t>(sign | ((rounded >> 20) - (120U << 3)))};
}

}  // namespace hocket::quant
