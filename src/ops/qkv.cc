#include <fmt/format.h>

#include <array>
#include <vector>

#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/row_rotary.h"
#include "ops/kv_check.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace hocket::ops {
namespace {

using device::DType;
using device::Parallel;
using device::require;
using quant::Bf16;

struct QkvStore {
  const kernels::RowKernels* kernels;
  KvShape shape;
  int64_t heads;
  float eps;
  const int32_t *positions, *slots;
  const float *qkv, *q_norm, *k_norm, *inv_freq;
  float* q;
  Bf16 *k, *v;

  void tokens(int64_t begin, int64_t end) const {
    const int64_t half = shape.head_dim / 2;
    std::vector<float> angles(static_cast<size_t>(2 * half));
    float *cos = angles.data(), *sin = cos + half;
    for (int64_t t = begin; t < end; ++t) {
      kernels::rotary_table(half, static_cast<float>(positions[t]), inv_freq, cos, sin);
      one_token(t, {shape.head_dim, eps, q_norm, cos, sin},
                {shape.head_dim, eps, k_norm, cos, sin});
    }
  }

 private:
  void one_token(int64_t token, const kernels::NormRope& q_rope,
                 const kernels::NormRope& k_rope) const {
    const int64_t dim = shape.head_dim;
    const float* from = qkv + token * (heads + 2 * shape.kv_heads) * dim;
    for (int64_t h = 0; h < heads; ++h, from += dim)
      kernels->norm_rope(q_rope, from, q + (token * heads + h) * dim);
    require_index(slots[token], shape.blocks * shape.block_size, "qk_norm_rope_store: slot");
    const int64_t block = slots[token] / shape.block_size, offset = slots[token] % shape.block_size;
    for (int64_t h = 0; h < shape.kv_heads; ++h, from += dim) {
      const int64_t head = (block * shape.kv_heads + h) * shape.block_size;
      store_key(k_rope, from, k + (head + offset / 16 * 16) * dim + offset % 16);
      kernels->narrow(dim, from + shape.kv_heads * dim, v + (head + offset) * dim);
    }
  }
  /// 16 tokens lie beside each other: this one's values are 16 apart.
  void store_key(const kernels::NormRope& rope, const float* from, Bf16* to) const {
    std::array<float, 512> key;
    std::array<Bf16, 512> rounded;
    kernels->norm_rope(rope, from, key.data());
    kernels->narrow(rope.dim, key.data(), rounded.data());
    for (int64_t d = 0; d < rope.dim; ++d) to[d * 16] = rounded[static_cast<size_t>(d)];
  }
};

}  // namespace

void qk_norm_rope_store(Lane on, TensorView q, TensorView qkv, const QkvWeights& weights,
                        const AttentionMeta& meta, const KvCache& cache) {
  const KvShape& shape = cache.shape;
  const int64_t tokens = q.rows(), heads = q.dim(1), dim = shape.head_dim;
  require_cache(cache, "qk_norm_rope_store");
  require(q, DType::f32, {tokens, heads, dim}, "qk_norm_rope_store: q");
  require(qkv, DType::f32, {tokens, (heads + 2 * shape.kv_heads) * dim}, "qk_norm_rope_store: qkv");
  require(weights.q_norm, DType::f32, {dim}, "qk_norm_rope_store: q_norm");
  require(weights.k_norm, DType::f32, {dim}, "qk_norm_rope_store: k_norm");
  require(weights.inv_freq, DType::f32, {dim / 2}, "qk_norm_rope_store: inv_freq");
  require(meta.positions, DType::i32, {tokens}, "qk_norm_rope_store: positions");
  require(meta.slots, DType::i32, {tokens}, "qk_norm_rope_store: slots");
  if (tokens == 0) return;
  const QkvStore store{&kernels::row_kernels(on.stream.device().isa()),
                       shape,
                       heads,
                       weights.eps,
                       meta.positions.as<int32_t>(),
                       meta.slots.as<int32_t>(),
                       qkv.as<float>(),
                       weights.q_norm.as<float>(),
                       weights.k_norm.as<float>(),
                       weights.inv_freq.as<float>(),
                       q.as<float>(),
                       cache.k.as<Bf16>(),
                       cache.v.as<Bf16>()};
  const auto stored = static_cast<double>(2 * tokens * shape.kv_heads * dim);
  const device::Cost cost{
      .flops = 10.0 * static_cast<double>(qkv.elements()),
      .memory_bytes = static_cast<double>(qkv.bytes() + q.bytes()) + 2.0 * stored};
  on.launch("qk_norm_rope_store", cost, [=](Parallel& threads) {
    for_rows(threads, tokens, 4 * qkv.dim(1),
             [&](int64_t begin, int64_t end) { store.tokens(begin, end); });
  });
}

}  // namespace hocket::ops
