#include "device/cpu/seeded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "device/cpu/progress.h"

namespace hocket::device::cpu {
namespace {

using testing::HasSubstr;

Work work(const char* stage, Work::Body body) { return Work{{stage, 1, 2}, {}, std::move(body)}; }

std::string order_of(uint64_t seed) {
  SeededDevice device(seed);
  const auto a = device.make_stream("compute"), b = device.make_stream("comm");
  std::string order;
  for (int i = 0; i < 4; ++i) {
    a->launch(work("a", [&order, i](Parallel&) { order += static_cast<char>('a' + i); }));
    b->launch(work("b", [&order, i](Parallel&) { order += static_cast<char>('A' + i); }));
  }
  device.drain();
  return order;
}

TEST(SeededDevice, EachSeedIsOneOrderAndSeedsDiffer) {
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string order = order_of(seed);
    EXPECT_EQ(order, order_of(seed)) << "seed " << seed;
    orders.insert(order);
    std::string lower, upper;  // whatever the interleaving, each stream keeps its order
    for (char c : order) (c >= 'a' ? lower : upper) += c;
    EXPECT_EQ(lower, "abcd");
    EXPECT_EQ(upper, "ABCD");
  }
  EXPECT_GT(orders.size(), 60u) << "of 70 possible";
}

TEST(SeededDevice, NothingRunsBeforeItIsDrained) {
  SeededDevice device(0);
  const auto stream = device.make_stream("compute");
  bool ran = false;
  stream->launch(work("a", [&](Parallel&) { ran = true; }));
  const Event event = stream->record();
  EXPECT_FALSE(event.state()->wait_until(Clock::time_point::max()))
      << "must not block: nobody else would run it";
  EXPECT_FALSE(ran);
  stream->synchronize();
  EXPECT_TRUE(ran && event.done() && event.state()->wait_until(Clock::time_point::min()));
}

TEST(SeededDevice, WaitsAreKeptAndAMissingOneIsFound) {
  int wrong_with = 0, wrong_without = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (int* wrong : {&wrong_with, &wrong_without}) {
      SeededDevice device(seed);
      const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
      int value = 0, seen = 0;
      compute->launch(work("write", [&](Parallel&) { value = 1; }));
      if (wrong == &wrong_with) comm->wait(compute->record());
      comm->launch(work("read", [&](Parallel&) { seen = value; }));
      device.drain();
      *wrong += seen != 1;
    }
  }
  EXPECT_EQ(wrong_with, 0);
  EXPECT_GT(wrong_without, 20);
}

TEST(SeededDevice, ShufflesIndicesAndWorkers) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SeededDevice device(seed);
    const auto stream = device.make_stream("compute");
    std::vector<int64_t> order;
    std::set<int> workers;
    stream->launch(work("a", [&](Parallel& parallel) {
      parallel.run(0, [&](int64_t, int) { order.push_back(-1); });
      parallel.run(20, [&](int64_t index, int worker) {
        order.push_back(index);
        workers.insert(worker);
        EXPECT_LT(worker, parallel.width());
      });
    }));
    device.drain();
    orders.insert(order);
    EXPECT_GT(workers.size(), 1u);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(order.at(static_cast<size_t>(i)), i);
  }
  EXPECT_EQ(orders.size(), 20u);
}

TEST(SeededDevice, ReportsADeadlockAndCanGoOn) {
  SeededDevice device(7);
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  const auto flag = std::make_shared<Signal>(Label{"flag", 0, 5});
  bool received = false;
  comm->launch(work("dispatch", [](Parallel&) {}));
  comm->wait(Event(flag));
  compute->wait(comm->record());
  compute->launch(work("receive", [&](Parallel&) { received = true; }));
  try {
    device.drain();
    FAIL() << "no deadlock was reported";
  } catch (const InvariantError& error) {
    EXPECT_THAT(error.what(), HasSubstr("deadlock: "));
    EXPECT_THAT(
        error.what(),
        HasSubstr("stream 0 (compute, before any work, waits for the end of u1/L2/dispatch)"));
    EXPECT_THAT(
        error.what(),
        HasSubstr("stream 1 (comm, after u1/L2/dispatch, waits for the end of u0/L5/flag)"));
  }
  flag->fire(nullptr);
  device.drain();
  EXPECT_TRUE(received);
}

TEST(SeededDevice, FailuresSpreadAlongEvents) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SeededDevice device(seed);
    const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
    const auto never = std::make_shared<Signal>(Label{"never"});
    bool ran = false;
    compute->launch(work("experts", [](Parallel&) { throw Error(Code::bad_id, "expert 99"); }));
    comm->wait(compute->record());
    comm->launch(work("combine", [&](Parallel&) { ran = true; }));
    comm->wait(Event(never));  // a poisoned stream does not wait
    const Event end = comm->record();
    device.drain();
    EXPECT_FALSE(ran);
    EXPECT_TRUE(end.failed());
    EXPECT_THAT(end.state()->failure(), HasSubstr("u1/L2/experts: expert 99"));
    EXPECT_THROW(comm->synchronize(), Error);
    try {
      compute->synchronize();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_id);
    }
    comm->clear_failure();
    comm->launch(work("again", [&](Parallel&) { ran = true; }));
    comm->synchronize();
    EXPECT_TRUE(ran);
  }
}

TEST(SeededDevice, FlushesDenormalsAsTheProductDoes) {
  SeededDevice device(1);
  const auto stream = device.make_stream("compute");
  volatile float tiny = std::numeric_limits<float>::min();
  float inside = 1;
  stream->launch(work("a", [&](Parallel&) { inside = tiny * 0.5F; }));
  device.drain();
  EXPECT_EQ(inside, 0.0F);
  EXPECT_NE(tiny * 0.5F, 0.0F) << "the caller's mode is restored";
}

TEST(SeededDevice, AStreamMayGoWhileTheDeviceStays) {
  SeededDevice device(1);
  const auto stays = device.make_stream("compute");
  device.make_stream("comm")->launch(work("lost", [](Parallel&) { FAIL(); }));
  stays->synchronize();
  EXPECT_EQ(device.isa(), best_isa());
  EXPECT_EQ(SeededDevice(1, Isa::generic).isa(), Isa::generic);
}

}  // namespace
}  // namespace hocket::device::cpu
