#include "model/layers/buffers.h"

#include <algorithm>

namespace hocket::model {
namespace {

using device::DType;
using ops::TensorView;
using ops::WeightFormat;

int64_t blocks(int64_t size) { return (size + quant::kScaleBlock - 1) / quant::kScaleBlock; }

}  // namespace

Buffers Buffers::shapes(const ModelConfig& config, const Weights& weights, WeightFormat experts, PassSize size) {
  const int64_t tokens = size.tokens, hidden = config.hidden;
  const int64_t q_width = config.heads * config.head_dim;
  const int64_t qkv_width = q_width + 2 * config.kv_heads * config.head_dim;
  int64_t dense = 0, expert_width = 0, moe_layers = 0;  // widths with their padding
  bool separate_qkv = false;
  for (const LayerWeights& layer : weights.layers) {
    separate_qkv = separate_qkv || layer.attention.qkv.size() > 1;
    if (const auto* own = std::get_if<DenseWeights>(&layer.feed_forward)) dense = std::max(dense, own->down.k);
    if (const auto* own = std::get_if<MoeWeights>(&layer.feed_forward)) {
      expert_width = own->down[0].k;
      ++moe_layers;
    }
  }
  const int64_t coded = config.format == WeightFormat::fp8_block ? std::max({hidden, q_width, dense}) : 0;
  const int64_t routed = moe_layers > 0 ? tokens : 0, capacity = moe_layers > 0 ? size.capacity : 0;

  Buffers b;
  b.x = {nullptr, DType::f32, {tokens, hidden}};
  b.normed = {nullptr, DType::bf16, {tokens, hidden}};
  b.codes = {nullptr, DType::bf16, {tokens, coded}};
  b.code_scales = {nullptr, DType::f32, {tokens, blocks(coded)}};
  b.qkv = {nullptr, DType::f32, {tokens, qkv_width}};
  b.qkv_part = {nullptr, DType::f32, {tokens, separate_qkv ? qkv_width : 0}};
  b.q = {nullptr, DType::f32, {tokens, config.heads, config.head_dim}};
  b.attended = {nullptr, DType::bf16, {tokens, q_width}};
  b.expert = {nullptr, DType::i32, {routed, config.top_k}};
  b.expert_weight = {nullptr, DType::f32, {routed, config.top_k}};
  b.expert_rows = {nullptr, DType::bf16, {capacity, hidden}};
  b.expert_scratch = {nullptr, DType::u8, {ops::experts_scratch_bytes(capacity, expert_width, experts)}};
  b.routed = {nullptr, DType::f32, {routed, hidden}};
  b.gate_up = {nullptr, DType::f32, {tokens, 2 * dense}};
  b.activated = {nullptr, DType::bf16, {tokens, dense}};
  b.last = {nullptr, DType::f32, {size.logit_rows, hidden}};
  b.last_normed = {nullptr, DType::bf16, {size.logit_rows, hidden}};
  return b;
}

std::array<TensorView*, 17> Buffers::all() {
  return {&x, &normed, &codes, &code_scales, &qkv, &qkv_part, &q, &attended, &expert, &expert_weight, &expert_rows,
          &expert_scratch, &routed, &gate_up, &activated, &last, &last_normed};
}

int64_t Buffers::bytes() const {
  Buffers copy = *this;
  int64_t sum = 0;
  for (const TensorView* view : copy.all()) sum += (view->bytes() + 63) / 64 * 64;  // as device::Arena rounds
  return sum;
}

void Buffers::place(device::Arena& arena) {
  for (TensorView* view : all()) *view = arena.like(*view);
}

ops::Operand Buffers::operand(const device::Lane& on, TensorView rows, const ops::PackedWeight& weight) const {
  if (weight.format == WeightFormat::bf16) return {rows, {}};
  const int64_t tokens = rows.rows(), width = rows.dim(1);
  const ops::Operand coded{{codes.data, DType::bf16, {tokens, width}},
                           {code_scales.data, DType::f32, {tokens, blocks(width)}}};
  ops::quantize(on, coded, rows);
  return coded;
}

}  // namespace hocket::model
