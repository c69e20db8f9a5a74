// A toy model through run() and Exchange, in many orders of its streams: which waits are needed,
// and what sharing breaks.
#include <gtest/gtest.h>

#include <vector>

#include "dbo/exchange.h"
#include "dbo/run.h"
#include "device/cpu/seeded.h"

namespace hocket::dbo {
namespace {

constexpr int kLayers = 4;

enum class Mistake { none, no_arrival_wait, shared_buffer, wrong_turns };

// Sends `from` to `to` through a wire buffer. With a mistake, compute does not wait for the
// arrival.
class Copy final : public Transfer {
 public:
  struct Path {
    const int64_t* from;
    int64_t* wire;
    int64_t* to;
  };
  Copy(Ubatch& ub, Path path, Mistake mistake) : ub_(ub), path_(path), mistake_(mistake) {}
  void prepare(device::Stream&) override {
    ub_.lane().launch("prepare", {},
                      [path = path_](device::Parallel&) { *path.wire = *path.from; });
  }
  void receive(device::Stream& compute) override {
    if (mistake_ != Mistake::no_arrival_wait) compute.wait(arrived_);
  }

 private:
  void push(device::Stream& comm) override {
    ub_.comm_lane().launch("push", {},
                           [path = path_](device::Parallel&) { *path.to = *path.wire + 1; });
    arrived_ = comm.record();
  }
  Ubatch& ub_;
  Path path_;
  Mistake mistake_;
  device::Event arrived_;
};

// `x` of a ubatch, and the sum that every ubatch adds to in turn, as a continuation reads the K/V
// of earlier parts.
struct State {
  std::vector<int64_t> x, wire, received;
  std::vector<int64_t> prefix = std::vector<int64_t>(kLayers, 0);
};

Task forward(Ubatch& ub, State& state, Mistake mistake) {
  const auto i = static_cast<size_t>(ub.index);
  const size_t w = mistake == Mistake::shared_buffer ? 0 : i;
  for (int l = 0; l < kLayers; ++l) {
    ub.layer = static_cast<int16_t>(l);
    int64_t *x = &state.x[i], *received = &state.received[i],
            *prefix = &state.prefix[static_cast<size_t>(l)];
    ub.lane().launch("attention", {}, [x, prefix](device::Parallel&) {
      *x = 3 * *x + *prefix;
      *prefix += *x;
    });
    Copy copy(ub, {x, &state.wire[w], received}, mistake);
    Exchange exchange(ub, copy);
    co_await exchange;
    ub.lane().launch("experts", {}, [x, received](device::Parallel&) { *x += 5 * *received; });
  }
}

std::vector<int64_t> result(int ubatches, Overlap overlap, uint64_t seed,
                            Mistake mistake = Mistake::none) {
  device::cpu::SeededDevice device(seed);
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  device::Arena arena(0);
  const auto n = static_cast<size_t>(ubatches);
  State state{.x = {}, .wire = std::vector<int64_t>(n, 0), .received = std::vector<int64_t>(n, 0)};
  for (int i = 0; i < ubatches; ++i) state.x.push_back(i + 1);
  std::vector<Ubatch> ubs;
  std::vector<Task> tasks;
  std::vector<Pass> passes;
  ubs.reserve(n);
  for (int i = 0; i < ubatches; ++i) {
    ubs.push_back(
        Ubatch{.index = i, .compute = *compute, .comm = *comm, .arena = arena, .overlap = overlap});
    tasks.push_back(forward(ubs.back(), state, mistake));
  }
  for (size_t i = 0; i < n; ++i) passes.push_back({&ubs[i], &tasks[i]});
  if (mistake == Mistake::wrong_turns) std::swap(passes.front(), passes.back());
  run(passes);
  device.drain();
  return state.x;
}

// The same, written as plain loops.
std::vector<int64_t> reference(int ubatches) {
  std::vector<int64_t> x;
  for (int i = 0; i < ubatches; ++i) x.push_back(i + 1);
  for (int l = 0; l < kLayers; ++l) {
    int64_t prefix = 0;
    for (int64_t& value : x) {
      value = 3 * value + prefix;
      prefix += value;
      value += 5 * (value + 1);
    }
  }
  return x;
}

int wrong_of(int orders, int ubatches, Mistake mistake) {
  int wrong = 0;
  for (int seed = 0; seed < orders; ++seed) {
    wrong +=
        result(ubatches, Overlap::on, static_cast<uint64_t>(seed), mistake) != reference(ubatches);
  }
  return wrong;
}

TEST(Interleaving, EveryOrderGivesTheSameValues) {
  for (int ubatches = 1; ubatches <= 4; ++ubatches) {
    for (uint64_t seed = 0; seed < 250; ++seed) {
      for (Overlap overlap : {Overlap::off, Overlap::on}) {
        EXPECT_EQ(result(ubatches, overlap, seed), reference(ubatches)) << "seed " << seed;
      }
    }
  }
}

TEST(Interleaving, FindsAMissingArrivalWait) {
  EXPECT_GT(wrong_of(200, 2, Mistake::no_arrival_wait), 100);
}

TEST(Interleaving, FindsABufferOfTwoUbatches) {
  EXPECT_GT(wrong_of(200, 2, Mistake::shared_buffer), 100);
}

TEST(Interleaving, FindsTurnsOutOfOrder) { EXPECT_EQ(wrong_of(50, 2, Mistake::wrong_turns), 50); }

}  // namespace
}  // namespace hocket::dbo
