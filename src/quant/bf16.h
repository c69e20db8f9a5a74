// bfloat16 as a storage type: arithmetic is always f32.
#pragma once
#include <bit>
#include <cstdint>

namespace hocket::quant {

struct Bf16 {
  uint16_t bits = 0;
};
static_assert(sizeof(Bf16) == 2);

inline float to_float(Bf16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }
/// Round to nearest even; NaN becomes the quiet NaN of its sign.
inline Bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
inline float round_to_bf16(float value) { return to_float(to_bf16(value)); }

}  // namespace hocket::quant
