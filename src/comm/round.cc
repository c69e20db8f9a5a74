#include "comm/round.h"

#include <fmt/format.h>

#include "comm/arrival.h"

namespace hocket::comm {

using device::Stream;
using device::TensorView;

Workspace::Workspace(const Config& c)
    : plan(c), inbound(c), rows(c.capacity() * c.hidden * 2), sources(static_cast<size_t>(c.ranks)) {
  const Layout layout(c);
  if (c.wire == Wire::bf16) return;
  codes = device::Buffer(c.max_tokens * c.hidden);
  code_scales = device::Buffer(c.max_tokens * layout.scales_per_row * 4);
  scales = device::Buffer(c.capacity() * layout.scales_per_row * 4);
}

void RoundSlot::reset() {
  phase_ = Phase::idle;
  round_ = end_.hooks.first_round - 1;
}

void RoundSlot::advance(Phase from, Phase to, std::string_view call) {
  if (phase_ != from) {
    throw InvariantError(fmt::format("all-to-all slot {}: {} out of order; a round is dispatch, prepare, send, receive, "
                                     "combine, prepare, send, receive, finish", index_, call));
  }
  phase_ = to;
}

void RoundSlot::launch(Stream& stream, const char* stage, device::Cost cost, device::Work::Body body) const {
  stream.launch({label(stage), cost, std::move(body)});
}

device::Event RoundSlot::arrived(Direction direction) const {
  const Config& c = end_.config;
  return make_arrival(*end_.fabric, {.slot = index_, .direction = direction, .epoch = call_.epoch, .rank = c.rank,
                                     .ranks = c.ranks, .timeout = call_.first ? c.open_timeout : c.timeout,
                                     .where = ub_->where()});
}

/// Rows that leave this rank if routing is uniform: for the cost of a launch, which is stated before ids are known.
double RoundSlot::remote_rows() const {
  const double peers = end_.config.ranks - 1;
  double reached = 1;
  if (end_.config.backend != Backend::allgather) {
    double miss = 1;
    for (int j = 0; j < end_.config.top_k; ++j) miss *= peers / (peers + 1);
    reached = 1 - miss;
  }
  return static_cast<double>(call_.tokens) * peers * reached;
}

dbo::Transfer& RoundSlot::dispatch(dbo::Ubatch& ub, TensorView x, const Routing& routing) {
  const Config& c = end_.config;
  const int64_t tokens = x.rows();
  if (tokens > 0) {
    device::require(x, device::DType::bf16, {tokens, c.hidden}, "all-to-all dispatch: x");
    device::require(routing.expert, device::DType::i32, {tokens, c.top_k}, "all-to-all dispatch: expert");
    device::require(routing.weight, device::DType::f32, {tokens, c.top_k}, "all-to-all dispatch: weight");
  } else if (!routing.expert.empty() || !routing.weight.empty()) {
    throw ShapeError(fmt::format("all-to-all dispatch: routing {} for no tokens", routing.expert.str()));
  }
  advance(Phase::idle, Phase::dispatch, "dispatch");
  ub_ = &ub;
  ++round_;
  call_ = {.x = tokens > 0 ? x.as<quant::Bf16>() : nullptr,
           .expert = tokens > 0 ? routing.expert.as<int32_t>() : nullptr,
           .weight = tokens > 0 ? routing.weight.as<float>() : nullptr,
           .tokens = tokens,
           .epoch = epoch_of(end_.generation, round_),
           .first = round_ == end_.hooks.first_round,
           .ops = &row_ops(ub.compute.device().isa())};
  return dispatch_;
}

void RoundSlot::prepare_dispatch(Stream& compute) {
  advance(Phase::dispatch, Phase::packed, "prepare of dispatch");
  if (end_.config.backend == Backend::low_latency) return;  // its push plans
  const double bytes = static_cast<double>(call_.tokens * end_.layout.data_bytes * 2);
  launch(compute, "plan", {.memory_bytes = bytes},
         [this, call = call_](device::Parallel& parallel) { plan(call, parallel); });
}

void RoundSlot::push_dispatch(Stream& comm) {
  advance(Phase::packed, Phase::pushed, "send of dispatch");
  const double bytes = remote_rows() * static_cast<double>(end_.layout.row_bytes);
  const bool plans = end_.config.backend == Backend::low_latency;
  launch(comm, "dispatch", {.memory_bytes = 2 * bytes, .wire_bytes = bytes},
         [this, call = call_, plans, name = label("dispatch")](device::Parallel& parallel) {
           if (plans) plan(call, parallel);
           push_rows(call, name);
         });
}

void RoundSlot::receive_dispatch(Stream& compute) {
  advance(Phase::pushed, Phase::received, "receive of dispatch");
  compute.wait(arrived(Direction::dispatch));
  // What others send is not known here; a balanced load is what this rank sends.
  const double bytes = static_cast<double>(call_.tokens * end_.config.top_k * end_.layout.back_bytes * 2);
  launch(compute, "unpack", {.memory_bytes = bytes},
         [this, call = call_](device::Parallel& parallel) { unpack(call, parallel); });
}

Received RoundSlot::received() const {
  if (phase_ != Phase::received) {
    throw InvariantError(fmt::format("all-to-all slot {}: received() is valid from receive to combine", index_));
  }
  const Config& c = end_.config;
  Received view;
  view.rows = TensorView(work_.rows.data(), device::DType::bf16, {c.capacity(), c.hidden});
  if (c.wire != Wire::bf16) {
    view.scales = TensorView(work_.scales.data(), device::DType::f32, {c.capacity(), end_.layout.scales_per_row});
  }
  // The experts read counts and offsets when their launch runs; nothing writes through these views.
  view.counts = TensorView(const_cast<int32_t*>(work_.inbound.counts().data()), device::DType::i32, {c.local_experts()});
  view.offsets =
      TensorView(const_cast<int32_t*>(work_.inbound.offsets().data()), device::DType::i32, {c.local_experts() + 1});
  return view;
}

dbo::Transfer& RoundSlot::combine(dbo::Ubatch& ub, TensorView y) {
  const Config& c = end_.config;
  if (!y.empty()) device::require(y, device::DType::bf16, {y.rows(), c.hidden}, "all-to-all combine: y");
  if (y.rows() > c.capacity()) {
    throw ShapeError(fmt::format("all-to-all combine: y {} has more rows than the capacity {}", y.str(), c.capacity()));
  }
  advance(Phase::received, Phase::combine, "combine");
  ub_ = &ub;
  call_.y = y.empty() ? nullptr : y.as<quant::Bf16>();
  call_.y_rows = y.rows();
  return combine_;
}

void RoundSlot::push_combine(Stream& comm) {
  advance(Phase::answered, Phase::sent, "send of combine");
  const double peers = end_.config.ranks - 1;
  const double rows = static_cast<double>(call_.tokens * end_.config.top_k) * peers / (peers + 1);
  const double bytes = rows * static_cast<double>(end_.layout.back_bytes);
  launch(comm, "combine", {.memory_bytes = 2 * bytes, .wire_bytes = bytes},
         [this, call = call_, name = label("combine")](device::Parallel&) { push_answers(call, name); });
}

void RoundSlot::receive_combine(Stream& compute) {
  advance(Phase::sent, Phase::returned, "receive of combine");
  compute.wait(arrived(Direction::combine));
}

void RoundSlot::finish(dbo::Ubatch& ub, TensorView out) {
  const Config& c = end_.config;
  if (call_.tokens > 0) device::require(out, device::DType::f32, {call_.tokens, c.hidden}, "all-to-all finish: out");
  advance(Phase::returned, Phase::idle, "finish");
  ub_ = &ub;
  const double terms = static_cast<double>(call_.tokens * c.top_k * c.hidden);
  float* const to = call_.tokens > 0 ? out.as<float>() : nullptr;
  launch(ub.compute, "home_sum", {.flops = 2 * terms, .memory_bytes = 2 * terms},
         [this, call = call_, to](device::Parallel& parallel) { sum_at_home(call, to, parallel); });
}

}  // namespace hocket::comm
