// What overlap costs the host: a hand-over between ubatches, a launch, an event.
#include <benchmark/benchmark.h>

#include <vector>

#include "dbo/run.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/pool.h"

namespace hocket {
namespace {

class Turn : public dbo::Yield {
 public:
  using Yield::Yield;
  void await_resume() const noexcept {}
};

dbo::Task turns(dbo::Ubatch& ub, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Turn turn(ub);
    co_await turn;
  }
}

constexpr int64_t kTurns = 10'000;

// One item is one hand-over: suspend a ubatch, pick the next, resume it.
void hand_off(benchmark::State& state) {
  device::cpu::CpuDevice device({});
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  device::Arena arena(0);
  const auto count = static_cast<int>(state.range(0));
  for (auto _ : state) {
    std::vector<dbo::Ubatch> ubs;
    std::vector<dbo::Task> tasks;
    std::vector<dbo::Pass> passes;
    ubs.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      ubs.push_back(dbo::Ubatch{.index = i,
                                .compute = *compute,
                                .comm = *comm,
                                .arena = arena,
                                .overlap = dbo::Overlap::on});
      tasks.push_back(turns(ubs.back(), kTurns));
    }
    for (size_t i = 0; i < ubs.size(); ++i) passes.push_back({&ubs[i], &tasks[i]});
    dbo::run(passes);
  }
  state.SetItemsProcessed(state.iterations() * count * kTurns);
}
BENCHMARK(hand_off)->Arg(1)->Arg(2)->Arg(4);

constexpr int kBatch = 1000;

// Host and device time together: the stream is drained after every batch.
void launch(benchmark::State& state) {
  device::cpu::CpuDevice device({});
  const auto compute = device.make_stream("compute");
  int64_t runs = 0;
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) {
      compute->launch({{"work", 0, 0}, {}, [&runs](device::Parallel&) { ++runs; }});
    }
    compute->synchronize();
  }
  benchmark::DoNotOptimize(runs);
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(launch)->UseRealTime();

// Enqueueing alone: the stream stands before a closed gate meanwhile.
void enqueue(benchmark::State& state) {
  device::cpu::CpuDevice device({});
  const auto compute = device.make_stream("compute"), gate = device.make_stream("comm");
  for (auto _ : state) {
    state.PauseTiming();
    device::cpu::Bell open;
    gate->launch({{"gate", 0, 0}, {}, [&open](device::Parallel&) {
                    while (open.count() == 0) open.wait(0, device::cpu::Bell::idle_deadline());
                  }});
    compute->wait(gate->record());
    state.ResumeTiming();
    for (int i = 0; i < kBatch; ++i)
      compute->launch({{"work", 0, 0}, {}, [](device::Parallel&) {}});
    state.PauseTiming();
    open.ring();
    compute->synchronize();
    gate->synchronize();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(enqueue);

// An event recorded on one stream and awaited by the other, as each exchange has two of.
void record_and_wait(benchmark::State& state) {
  device::cpu::CpuDevice device({});
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) comm->wait(compute->record());
    comm->synchronize();
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
}
BENCHMARK(record_and_wait)->UseRealTime();

// There and back between two threads, one item at a time: includes waking a sleeper.
void ping_pong(benchmark::State& state) {
  device::cpu::CpuDevice device({});
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  for (auto _ : state) {
    for (int i = 0; i < 100; ++i) {
      comm->wait(compute->record());
      compute->wait(comm->record());
    }
    compute->synchronize();
  }
  state.SetItemsProcessed(state.iterations() * 200);
}
BENCHMARK(ping_pong)->UseRealTime();

// A parallel-for over as many indices as there are threads.
void parallel_for(benchmark::State& state) {
  device::cpu::Pool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    pool.run(state.range(0), [](int64_t index, int) { benchmark::DoNotOptimize(index); });
  }
}
BENCHMARK(parallel_for)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace hocket
