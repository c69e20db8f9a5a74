// The arithmetic of an exchange on single rows: quantise before the wire, widen after it, sum at home. Chosen once per
// instruction set; every choice gives the same bits.
#pragma once
#include <cstdint>

#include "base/isa.h"
#include "quant/bf16.h"

namespace hocket::comm {

struct RowOps {
  /// Per 128 columns: scale = max(max|x|, 1e-10) / 448, code = e4m3(x / scale). codes [n]; scales [ceil(n / 128)];
  /// x [n]. A block with a NaN or an infinity does not come out finite. The formula of ops::quantize.
  void (*quantise)(uint8_t* codes, float* scales, const quant::Bf16* x, int64_t n);
  /// values[i] = codes[i] as bf16, exact.
  void (*widen)(quant::Bf16* values, const uint8_t* codes, int64_t n);
  /// out[i] = +0, then for r = 0..rows-1: out[i] = fma(weights[r], y[r][i], out[i]).
  void (*weighted_sum)(float* out, const quant::Bf16* const* y, const float* weights, int rows, int64_t n);
};
const RowOps& row_ops(Isa isa);

extern const RowOps kRowOpsGeneric;
#ifdef __x86_64__
extern const RowOps kRowOpsAvx2;
#endif

}  // namespace hocket::comm
