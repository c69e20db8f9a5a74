#include "model/layers/attention.h"

#include <algorithm>

namespace hocket::model {
namespace {

using device::DType;
using device::Lane;
using ops::TensorView;

/// out[t, column .. column + width) = part[t, :]. out [T, N] f32; part [T, width] f32.
void copy_columns(const Lane& on, TensorView out, TensorView part, int64_t column) {
  const double bytes = 2.0 * static_cast<double>(part.bytes());
  on.launch("qkv_join", {.memory_bytes = bytes}, [out, part, column](device::Parallel& parallel) {
    const int64_t width = part.dim(1), stride = out.dim(1);
    parallel.run(part.rows(), [&](int64_t row, int) {
      std::copy_n(part.as<float>() + row * width, width, out.as<float>() + row * stride + column);
    });
  });
}

}  // namespace

void Attention::forward(dbo::Ubatch& ub, const Buffers& b, const ops::AttentionMeta& meta,
                        const ops::KvCache& kv) const {
  ub.stage = "attention";
  const Lane on = ub.lane();
  ops::rms_norm(on, b.normed, b.x, weights_.norm, eps_);
  project_qkv(on, b);
  ops::qk_norm_rope_store(on, b.q, b.qkv, {weights_.q_norm, weights_.k_norm, inv_freq_, eps_}, meta, kv);
  ops::attention(on, b.attended, b.q, meta, kv);
  ops::gemm(on, b.x, b.operand(on, b.attended, weights_.o), weights_.o, ops::Store::add, "o_proj");
}

void Attention::project_qkv(const Lane& on, const Buffers& b) const {
  if (weights_.qkv.size() == 1) {
    return ops::gemm(on, b.qkv, b.operand(on, b.normed, weights_.qkv[0]), weights_.qkv[0], ops::Store::assign, "qkv");
  }
  int64_t column = 0;
  for (const ops::PackedWeight& weight : weights_.qkv) {
    const TensorView part(b.qkv_part.data, DType::f32, {b.normed.rows(), weight.n});
    ops::gemm(on, part, b.operand(on, b.normed, weight), weight, ops::Store::assign, "qkv");
    copy_columns(on, b.qkv, part, column);
    column += weight.n;
  }
}

}  // namespace hocket::model
