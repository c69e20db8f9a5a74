// The feed-forward part of a layer without experts: norm, SwiGLU, into the residual.
#pragma once
#include "model/layers/buffers.h"

namespace hocket::model {

class DenseLayer {
 public:
  DenseLayer(const DenseWeights& weights, float eps) : weights_(weights), eps_(eps) {}  ///< `weights` outlive the layer
  /// b.x += down(silu(gate h) * up h), h = rms_norm(b.x). Enqueues on compute. Source: Qwen3MoeMLP of transformers.
  void forward(dbo::Ubatch& ub, const Buffers& b) const;

 private:
  const DenseWeights& weights_;
  float eps_;
};

}  // namespace hocket::model
