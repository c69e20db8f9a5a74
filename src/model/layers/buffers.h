// The step memory of one pass: one set of tensors, used again by every layer.
#pragma once
#include <array>

#include "comm/all2all.h"
#include "model/weights.h"

namespace hocket::model {

/// What decides the sizes of a pass's buffers.
struct PassSize {
  int64_t tokens = 0, logit_rows = 0;
  int64_t capacity = 0;  ///< rows that the all-to-all may bring to this rank
};

/// Every layer of a pass writes the same memory. All of it is written and read in order on the compute stream, but for
/// two tensors that the comm stream reads too: `normed` (dispatch) and `expert_rows` (combine). A later layer writes
/// `normed` after this layer's combine arrived from every rank, and no rank sends that before all our dispatched rows
/// reached it. It writes `expert_rows` after the next dispatch arrived from every rank, ours included, and the comm
/// stream sends that behind the combine. What the exchange reads in place on compute, it has read when finish() has run.
struct Buffers {
  ops::TensorView x;            ///< [T, H] f32, the residual stream
  ops::TensorView normed;       ///< [T, H] bf16, input of attention, of the experts and of the dense layers
  ops::TensorView codes;        ///< [T, widest K] bf16: FP8 codes of whatever is multiplied next
  ops::TensorView code_scales;  ///< [T, widest K / 128] f32
  ops::TensorView qkv, qkv_part;  ///< [T, (heads + 2 kv_heads) * head_dim] f32; the second for separate q, k, v
  ops::TensorView q;            ///< [T, heads, head_dim] f32
  ops::TensorView attended;     ///< [T, heads * head_dim] bf16
  ops::TensorView expert, expert_weight;  ///< [T, top_k] i32, f32
  ops::TensorView expert_rows;  ///< [capacity, H] bf16
  ops::TensorView expert_scratch;
  ops::TensorView routed;       ///< [T, H] f32, the experts' sum
  ops::TensorView gate_up;      ///< [T, 2I] f32, of dense layers
  ops::TensorView activated;    ///< [T, I] bf16, of dense layers
  ops::TensorView last, last_normed;  ///< [R, H] f32, bf16: the rows whose logits are wanted

  /// The shapes for a model and a size; no memory yet.
  static Buffers shapes(const ModelConfig& config, const Weights& weights, ops::WeightFormat experts, PassSize size);
  int64_t bytes() const;             ///< what place() takes from an arena
  void place(device::Arena& arena);

  /// `rows` as the left operand of `weight`: quantised into `codes` when the weight is FP8.
  ops::Operand operand(const device::Lane& on, ops::TensorView rows, const ops::PackedWeight& weight) const;

 private:
  std::array<ops::TensorView*, 17> all();
};

}  // namespace hocket::model
