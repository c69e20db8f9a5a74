// What a matrix multiplication takes: rows to multiply, and weights packed once at load.
#pragma once
#include <span>

#include "device/arena.h"
#include "device/tensor.h"

namespace hocket::ops {

/// Left operand. rows [M, K] bf16. With `scales` [M, ceil(K/128)] f32, rows hold e4m3 codes as bf16 values and
/// x[m,k] = rows[m,k] * scales[m, k/128] (FP8 activations, quantised per token and 128 columns).
struct Operand {
  device::TensorView rows;
  device::TensorView scales{};
};

enum class WeightFormat : uint8_t { bf16, fp8_block };  ///< fp8_block: e4m3 with one f32 scale per 128x128 block

/// y = x Wt. W [n, k] packed for the kernels; one layout for every instruction set and every M, so that a row's bits
/// never depend on how many rows share the call.
struct PackedWeight {
  int64_t n = 0, k = 0;
  WeightFormat format = WeightFormat::bf16;
  device::TensorView data;    ///< packed elements
  device::TensorView scales;  ///< fp8_block: [ceil(n/128), ceil(k/128)] f32
};

}  // namespace hocket::ops
