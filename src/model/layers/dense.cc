#include "model/layers/dense.h"

namespace hocket::model {

void DenseLayer::forward(dbo::Ubatch& ub, const Buffers& b) const {
  using ops::TensorView;
  ub.stage = "dense";
  const device::Lane on = ub.lane();
  const int64_t tokens = b.x.rows();
  const TensorView gate_up(b.gate_up.data, device::DType::f32, {tokens, weights_.gate_up.n});
  const TensorView activated(b.activated.data, device::DType::bf16, {tokens, weights_.down.k});
  ops::rms_norm(on, b.normed, b.x, weights_.norm, eps_);
  ops::gemm(on, gate_up, b.operand(on, b.normed, weights_.gate_up), weights_.gate_up, ops::Store::assign,
            "gate_up");
  ops::silu_mul(on, activated, gate_up);
  ops::gemm(on, b.x, b.operand(on, activated, weights_.down), weights_.down, ops::Store::add, "down");
}

}  // namespace hocket::model
