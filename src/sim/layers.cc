#include "sim/layers.h"

#include <algorithm>

namespace hocket::sim {
namespace {

using dbo::Task;
using dbo::Ubatch;

struct Context {
  RecordDevice& device;
  Stages& stages;
  const Order& order;
};

/// Gives way without sending anything; pays for the hand-over when it is its turn again.
class HandOver : public dbo::Yield {
 public:
  HandOver(Ubatch& ub, Context& context) : dbo::Yield(ub), context_(context) {}
  void await_resume() {
    if (ub_.overlap == dbo::Overlap::on && context_.order.host.hand_over > Nanos(0))
      context_.device.spend("hand_over", context_.order.host.hand_over);
  }

 private:
  Context& context_;
};

/// Recorded and sent when the pass is resumed: too late, the other ubatch has enqueued meanwhile.
class LateExchange : public HandOver {
 public:
  LateExchange(Ubatch& ub, Context& context, Wire& wire) : HandOver(ub, context), wire_(wire) {}
  void await_resume() {
    HandOver::await_resume();
    dbo::Exchange late(ub_, wire_);
    late.await_resume();
  }

 private:
  Wire& wire_;
};

/// On time, with the constructor that LateExchange has.
class PromptExchange : public dbo::Exchange {
 public:
  PromptExchange(Ubatch& ub, Context&, Wire& wire) : dbo::Exchange(ub, wire) {}
};

template <class AnExchange>
Task hocket_layer(Ubatch& ub, Context& context) {
  Stages& stages = context.stages;
  Wire wire(ub, Direction::dispatch, stages.wire(ub, Direction::dispatch));
  AnExchange out(ub, context, wire);
  co_await out;
  stages.experts(ub);
  Wire home(ub, Direction::combine, stages.wire(ub, Direction::combine));
  AnExchange back(ub, context, home);
  stages.shared(ub);
  co_await back;
}

// Kernels before the hand-over, the send behind it, another hand-over between combine and its use.
Task vllm_layer(Ubatch& ub, Context& context) {
  Stages& stages = context.stages;
  const bool late = context.order.capture == EventCapture::after_yield;
  Wire wire(ub, Direction::dispatch, stages.wire(ub, Direction::dispatch));
  wire.prepare(ub.compute);
  device::Event ready = ub.compute.record();
  HandOver first(ub, context);
  co_await first;
  if (late) ready = ub.compute.record();
  wire.send_after(ub.comm, ready);
  if (context.order.host.counts == HostCosts::Counts::on_host)
    context.device.host_wait(wire.arrived());
  wire.receive(ub.compute);
  stages.experts(ub);
  Wire home(ub, Direction::combine, stages.wire(ub, Direction::combine));
  home.prepare(ub.compute);
  ready = ub.compute.record();
  HandOver second(ub, context);
  co_await second;
  if (late) ready = ub.compute.record();
  home.send_after(ub.comm, ready);
  stages.shared(ub);
  HandOver third(ub, context);
  co_await third;
  home.receive(ub.compute);
}

Task layer_of(Ubatch& ub, Context& context) {
  if (context.order.schedule == Schedule::vllm) return vllm_layer(ub, context);
  if (context.order.capture == EventCapture::after_yield)
    return hocket_layer<LateExchange>(ub, context);
  return hocket_layer<PromptExchange>(ub, context);
}

Task pass(Ubatch& ub, Context& context) {
  for (int layer = 0; layer < context.order.layers; ++layer) {
    ub.layer = static_cast<int16_t>(layer);
    if (context.order.host.layer > Nanos(0))
      context.device.spend("launches", context.order.host.layer);
    context.stages.attention(ub);
    if (!context.stages.is_moe(layer)) {
      context.stages.dense(ub);
      continue;
    }
    Task exchanged = layer_of(ub, context);
    co_await exchanged;
    context.stages.finish(ub);
  }
  ub.layer = -1;
  context.stages.tail(ub);
}

/// Every launch takes the flops of its cost in ns.
class TimedStages final : public Stages {
 public:
  explicit TimedStages(const StageTimes& times) : times_(times) {}
  bool is_moe(int) const override { return true; }
  void attention(Ubatch& ub) override { launch(ub, "attention", times_.attention); }
  void experts(Ubatch& ub) override { launch(ub, "experts", times_.experts); }
  void shared(Ubatch& ub) override { launch(ub, "shared", times_.shared); }
  void finish(Ubatch&) override {}
  void dense(Ubatch&) override {}
  void tail(Ubatch&) override {}
  WireSpec wire(Ubatch&, Direction direction) override {
    WireSpec spec{.mode = times_.mode,
                  .prepare = {.flops = times_.prepare},
                  .receive = {.flops = times_.receive}};
    spec.exchange.fixed_ns = direction == Direction::dispatch ? times_.dispatch : times_.combine;
    spec.exchange.sms = times_.mode == dbo::Mode::high_throughput ? times_.comm_sms : 0;
    return spec;
  }

 private:
  static void launch(Ubatch& ub, const char* stage, double ns) {
    if (ns > 0) ub.lane().launch(stage, {.flops = ns}, {});
  }
  const StageTimes& times_;
};

}  // namespace

void record_step(RecordDevice& device, Stages& stages, std::span<const dbo::TokenRange> ranges,
                 const Order& order) {
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  device::Arena arena(0);
  Context context{device, stages, order};
  std::vector<Ubatch> ubatches;
  std::vector<Task> tasks;
  std::vector<dbo::Pass> passes;
  ubatches.reserve(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    ubatches.push_back(Ubatch{.index = static_cast<int>(i),
                              .tokens = ranges[i],
                              .compute = *compute,
                              .comm = *comm,
                              .arena = arena,
                              .overlap = order.overlap});
  }
  for (Ubatch& ub : ubatches) tasks.push_back(pass(ub, context));
  for (size_t i = 0; i < ubatches.size(); ++i) passes.push_back({&ubatches[i], &tasks[i]});
  dbo::run(passes);
}

device::sim::Timeline run_stages(const StageTimes& times, const StageRun& run) {
  Graph graph{.ranks = run.ranks};
  const Pricer pricer = [](const device::Label&, const device::Cost& cost) {
    return Price{.flops = cost.flops};
  };
  const std::vector<dbo::TokenRange> ranges(static_cast<size_t>(run.ubatches));
  TimedStages stages(times);
  for (int rank = 0; rank < run.ranks; ++rank) {
    RecordDevice device(graph, rank, pricer, run.launch);
    record_step(device, stages, ranges, run.order);
  }
  auto solution = solve(graph, run.machine);
  if (!solution) throw Error(solution.error().code, solution.error().message);
  return timeline(graph, *solution, 0);
}

}  // namespace hocket::sim
