#include "sim/model_stages.h"

#include <algorithm>
#include <cmath>

namespace hocket::sim {
namespace {

double real(int64_t value) { return static_cast<double>(value); }

}  // namespace

const Share& ModelStages::mine(const dbo::Ubatch& ub) const {
  return shape_.ranks[static_cast<size_t>(rank_)][static_cast<size_t>(ub.index)];
}

double ModelStages::tokens_of(int rank, int ubatch) const {
  return real(shape_.ranks[static_cast<size_t>(rank)][static_cast<size_t>(ubatch)].tokens);
}

double ModelStages::tokens_of_all(int ubatch) const {
  double tokens = 0;
  for (int rank = 0; rank < setup_.ranks; ++rank) tokens += tokens_of(rank, ubatch);
  return tokens;
}

double ModelStages::expert_rows(int ubatch) const {
  return tokens_of_all(ubatch) * routing_.choices[static_cast<size_t>(rank_)];
}

double ModelStages::token_rows(int ubatch) const {
  return tokens_of_all(ubatch) * routing_.reached[static_cast<size_t>(rank_)];
}

double ModelStages::touched(double rows) const {
  const double local = real(model_.experts) / setup_.ranks;
  return local * (1 - std::exp(-rows / local));
}

// Low latency sends a row for every choice. High throughput sends a token once to a rank, and once
// to another node, from where it is passed on.
std::vector<double> ModelStages::row_counts(int ubatch) const {
  std::vector<double> rows(static_cast<size_t>(setup_.ranks));
  const bool once = shape_.mode == dbo::Mode::high_throughput;
  const int node = std::min(static_cast<int>(setup_.hardware.node_gpus), setup_.ranks);
  for (int to = 0; to < setup_.ranks; ++to) {
    const auto peer = static_cast<size_t>(to);
    const auto home = static_cast<size_t>(to / node);
    double share = once ? routing_.reached[peer] : routing_.choices[peer];
    if (once && to / node != rank_ / node) share = routing_.node_reached[home] / node;
    rows[peer] = share * tokens_of(rank_, ubatch);
  }
  return rows;
}

void ModelStages::attention(dbo::Ubatch& ub) {
  const Share& share = mine(ub);
  const double t = real(share.tokens), h = real(model_.hidden);
  const double weights = model_.attention_weights(), width = bytes_of(model_.dense_format);
  const double out = real(model_.heads) * h * real(model_.mla() ? model_.v_dim : model_.head_dim);
  const double qkv = weights - out;
  const double qkv_columns = qkv / h;
  const bool windowed = model_.window > 0 && ub.layer % 2 == 0;
  const double pairs = real(windowed ? share.window_pairs : share.pairs);
  const auto form =
      shape_.phase == dbo::Phase::decode ? ModelSpec::Form::decode : ModelSpec::Form::prefill;
  const double context =
      windowed ? std::min(real(share.context), real(model_.window) * t) : real(share.context);
  const double core = out / h;
  launch(ub, "input_norm", {.memory_bytes = 4 * t * h});
  launch(
      ub, "qkv",
      {.flops = 2 * t * qkv, .memory_bytes = t > 0 ? qkv * width + 2 * t * (h + qkv_columns) : 0});
  launch(ub, "rope_kv", {.memory_bytes = t * (4 * qkv_columns + model_.kv_bytes())});
  launch(ub, "attention",
         {.flops = pairs * model_.core_flops(form),
          .memory_bytes = context * model_.kv_bytes() + 4 * t * core});
  launch(ub, "o_proj",
         {.flops = 2 * t * out, .memory_bytes = t > 0 ? out * width + 2 * t * (core + h) : 0});
  if (!is_moe(ub.layer)) return;
  launch(ub, "norm", {.memory_bytes = 8 * t * h});
  launch(ub, "router",
         {.flops = 2 * t * h * real(model_.experts),
          .memory_bytes = 2 * t * h + 4 * t * real(model_.experts)});
}

WireSpec ModelStages::wire(dbo::Ubatch& ub, Direction direction) {
  const bool out = direction == Direction::dispatch;
  const double h = real(model_.hidden), t = tokens_of(rank_, ub.index);
  const double row = out ? model_.dispatch_row_bytes() : model_.combine_row_bytes();
  WireSpec spec{.mode = shape_.mode};
  const bool ht = shape_.mode == dbo::Mode::high_throughput;
  spec.exchange.sms = ht ? setup_.comm_sms : 0;
  spec.exchange.bytes.resize(static_cast<size_t>(setup_.ranks));
  if (out) {
    const std::vector<double> rows = row_counts(ub.index);
    for (size_t to = 0; to < rows.size(); ++to) spec.exchange.bytes[to] = rows[to] * row;
    const double arrived = ht ? token_rows(ub.index) : expert_rows(ub.index);
    spec.prepare.memory_bytes = t * (2 * h + row);
    spec.receive.memory_bytes = arrived * row + expert_rows(ub.index) * row;
    return spec;
  }
  // home: what a rank received it sends back, summed over its own experts in high throughput
  for (int to = 0; to < setup_.ranks; ++to) {
    const ModelStages peer(setup_, routing_, shape_, to);
    spec.exchange.bytes[static_cast<size_t>(to)] =
        peer.row_counts(ub.index)[static_cast<size_t>(rank_)] * row;
  }
  spec.exchange.speed = setup_.hardware.link_combine_gb_s / setup_.hardware.link_gb_s;
  const double received = expert_rows(ub.index);
  spec.prepare.memory_bytes = received * row + (ht ? token_rows(ub.index) : received) * row;
  const double back = t * (ht ? routing_.distinct() : real(model_.top_k));
  spec.receive.memory_bytes = back * row + 2 * t * h;
  return spec;
}

void ModelStages::experts(dbo::Ubatch& ub) {
  const double rows = expert_rows(ub.index), h = real(model_.hidden), w = real(model_.expert_width);
  const double weights = touched(rows) * bytes_of(model_.expert_format) * h * w;
  const double in = model_.wire == Format::fp8 ? 1 : 2;
  launch(ub, "gate_up",
         {.flops = 4 * rows * h * w, .memory_bytes = 2 * weights + rows * (in * h + 4 * w)});
  launch(ub, "activation", {.memory_bytes = rows * w * (4 + in)});
  launch(ub, "down",
         {.flops = 2 * rows * h * w, .memory_bytes = weights + rows * (in * w + 2 * h)});
}

void ModelStages::feed_forward(dbo::Ubatch& ub, const char* stage, int64_t width) {
  const double t = tokens_of(rank_, ub.index), h = real(model_.hidden), w = real(width);
  launch(ub, stage,
         {.flops = 6 * t * h * w,
          .memory_bytes =
              t > 0 ? 3 * h * w * bytes_of(model_.dense_format) + t * (4 * h + 6 * w) : 0});
}

void ModelStages::shared(dbo::Ubatch& ub) {
  if (model_.shared_width > 0) feed_forward(ub, "shared", model_.shared_width);
}

void ModelStages::finish(dbo::Ubatch& ub) {
  const double t = tokens_of(rank_, ub.index);
  launch(ub, "residual", {.memory_bytes = 6 * t * real(model_.hidden)});
}

void ModelStages::dense(dbo::Ubatch& ub) { feed_forward(ub, "dense", model_.dense_width); }

void ModelStages::tail(dbo::Ubatch& ub) {
  const double n = real(mine(ub).samples), h = real(model_.hidden), v = real(model_.vocab);
  if (n <= 0) return;
  launch(ub, "logits", {.flops = 2 * n * h * v, .memory_bytes = 2 * h * v + 4 * n * v});
}

}  // namespace hocket::sim
