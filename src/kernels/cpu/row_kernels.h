// Kernels that work on one row: norms, activations, quantisation. One table per instruction set;
// all give equal bits. A sum over a row uses 16 lanes (element i goes to lane i % 16, in ascending
// order) and one fixed tree at the end.
#pragma once
#include <cstdint>

#include "quant/bf16.h"

namespace hocket {
enum class Isa : uint8_t;  // base/isa.h; files compiled for one instruction set stay free of its
                           // inline functions
}
namespace hocket::kernels {

/// What all heads of a token share.
struct NormRope {
  int64_t dim = 0;
  float eps = 0;
  const float* w = nullptr;
  const float* cos = nullptr;
  const float* sin = nullptr;
};
/// gate [experts, hidden].
struct RouterRows {
  int64_t tokens = 0, experts = 0, hidden = 0;
  const float* gate = nullptr;
};

/// Pure functions of their arguments, thread safe; any alignment, any length >= 0. Input and output
/// do not overlap unless a line says so.
struct RowKernels {
  /// out[i] = bf16(silu(gate[i]) * up[i]), silu(z) = z / (1 + exp(-z)).
  void (*silu_mul)(int64_t intermediate, const float* gate, const float* up, quant::Bf16* out);
  /// Per 128 columns: scales[g] = max(max|x|, 1e-10) / 448, codes[i] = e4m3(x[i] / scales[g]) as a
  /// bf16 value.
  void (*quantize)(int64_t k, const quant::Bf16* x, quant::Bf16* codes, float* scales);
  /// out[i] = bf16(w[i] * (x[i] * scale)), scale = 1 / sqrt(mean(x^2) + eps).
  void (*rms_norm)(int64_t hidden, float eps, const float* x, const float* w, quant::Bf16* out);
  /// y = w * (x * scale) as above, then half-form RoPE: out[i] = y[i] cos[i] - y[i + dim/2] sin[i],
  /// out[i + dim/2] = y[i + dim/2] cos[i] + y[i] sin[i]. cos, sin [dim / 2]; dim even.
  void (*norm_rope)(const NormRope& head, const float* x, float* out);
  /// out[i] = in[i] exactly.
  void (*widen)(int64_t count, const quant::Bf16* in, float* out);
  /// out[i] = bf16(in[i]).
  void (*narrow)(int64_t count, const float* in, quant::Bf16* out);
  /// x[i] += y[i].
  void (*add)(int64_t count, float* x, const float* y);
  /// logits[t, e] = sum over i of x[t, i] gate[e, i]. x [tokens, hidden], gate [experts, hidden].
  void (*router_logits)(const RouterRows& rows, const float* x, float* logits);
  /// In place: softmax over `count` values, maximum subtracted first.
  void (*softmax)(int64_t count, float* x);
  /// out[i] = exp(in[i]): 0 below ln 2^-126, infinity above ln FLT_MAX. May run in place.
  void (*exp)(int64_t count, const float* in, float* out);
};

/// The table for `isa`, which the processor must support.
const RowKernels& row_kernels(Isa isa);

}  // namespace hocket::kernels
