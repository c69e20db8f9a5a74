// The feed-forward part of a layer with routed experts: norm, router, exchange, experts, exchange, into the residual.
#pragma once
#include "model/layers/buffers.h"

namespace hocket::model {

class MoeLayer {
 public:
  MoeLayer(const MoeWeights& weights, ops::Normalize normalize, float eps)  ///< `weights` outlive the layer
      : weights_(weights), normalize_(normalize), eps_(eps) {}
  /// b.x += sum over chosen experts. Suspends twice, in the exchanges; the arguments outlive the task. Every rank must
  /// call it for every ubatch, with zero tokens too. Source: Qwen3MoeSparseMoeBlock of transformers; docs/dbo.md.
  dbo::Task forward(dbo::Ubatch& ub, const Buffers& b, comm::AllToAll& a2a) const;

 private:
  comm::Routing route(dbo::Ubatch& ub, const Buffers& b) const;
  ops::TensorView run_experts(dbo::Ubatch& ub, const Buffers& b, const comm::Received& received) const;
  const MoeWeights& weights_;
  ops::Normalize normalize_;
  float eps_;
};

}  // namespace hocket::model
