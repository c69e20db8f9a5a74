// Grouped-query attention of one layer: norm, q, k, v, RoPE, paged attention, output projection into the residual.
#pragma once
#include "model/layers/buffers.h"

namespace hocket::model {

class Attention {
 public:
  /// `weights` outlive the layer; inv_freq [head_dim / 2] f32.
  Attention(const AttentionWeights& weights, ops::TensorView inv_freq, float eps)
      : weights_(weights), inv_freq_(inv_freq), eps_(eps) {}
  /// b.x += attention(rms_norm(b.x)) for the ubatch's tokens, whose K and V go into `kv` first. Enqueues on compute.
  /// Zero tokens are fine. Source: Qwen3MoeAttention of transformers.
  void forward(dbo::Ubatch& ub, const Buffers& b, const ops::AttentionMeta& meta, const ops::KvCache& kv) const;

 private:
  void project_qkv(const device::Lane& on, const Buffers& b) const;
  const AttentionWeights& weights_;
  ops::TensorView inv_freq_;
  float eps_;
};

}  // namespace hocket::model
