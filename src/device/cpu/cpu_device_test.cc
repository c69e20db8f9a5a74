#include "device/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "device/cpu/progress.h"

namespace hocket::device::cpu {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Work work(const char* stage, Work::Body body) { return Work{{stage, 0, 3}, {}, std::move(body)}; }

Code code_of(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const Error& error) {
    return error.code();
  }
  return Code::ok;
}
std::string failure_of(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// An event that the test fires by hand, as a peer would.
struct Flag {
  std::shared_ptr<Signal> signal = std::make_shared<Signal>(Label{"flag"});
  Event event{signal};
  void raise() { signal->fire(nullptr); }
  void fail(const std::string& why) { signal->fire(std::make_shared<const std::string>(why)); }
};

struct Lanes {
  explicit Lanes(CpuOptions options = {}) : device(options) {}
  CpuDevice device;
  std::unique_ptr<Stream> compute = device.make_stream("compute"),
                          comm = device.make_stream("comm");
};

TEST(CpuDevice, RunsAStreamInOrder) {
  Lanes lanes;
  std::vector<int> seen;
  for (int i = 0; i < 1000; ++i)
    lanes.compute->launch(work("step", [&seen, i](Parallel&) { seen.push_back(i); }));
  lanes.compute->synchronize();
  ASSERT_EQ(seen.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST(CpuDevice, GivesTheComputeLaneAllThreadsAndOthersOne) {
  Lanes lanes({.threads = 3});
  int compute = 0, comm = 0;
  lanes.compute->launch(work("a", [&](Parallel& p) { compute = p.width(); }));
  lanes.comm->launch(work("b", [&](Parallel& p) { comm = p.width(); }));
  lanes.compute->synchronize();
  lanes.comm->synchronize();
  EXPECT_EQ(compute, 3);
  EXPECT_EQ(comm, 1);
  EXPECT_THROW(CpuDevice({.threads = 0}), Error);
  EXPECT_EQ(CpuDevice({.isa = Isa::avx2}).isa(), Isa::avx2);
}

TEST(CpuDevice, EnqueueingDoesNotWaitForWork) {
  Lanes lanes;
  Flag gate;
  lanes.compute->wait(gate.event);
  bool ran = false;
  for (int i = 0; i < 500; ++i) lanes.compute->launch(work("late", [&](Parallel&) { ran = true; }));
  const Event end = lanes.compute->record();
  EXPECT_FALSE(end.done());
  gate.raise();
  lanes.compute->synchronize();
  EXPECT_TRUE(end.done());
  EXPECT_TRUE(ran);
}

// Each lane finishes only if the other runs at the same time: A waits for B's first half, B for
// A's.
TEST(CpuDevice, ComputeAndCommRunAtTheSameTime) {
  Lanes lanes;
  Flag a, b;
  bool a_saw_b = false, b_saw_a = false;
  const auto meet = [](Flag& mine, const Event& theirs) {
    mine.raise();
    return theirs.state()->wait_until(Clock::now() + std::chrono::seconds(60));
  };
  lanes.compute->launch(work("a", [&](Parallel&) { a_saw_b = meet(a, b.event); }));
  lanes.comm->launch(work("b", [&](Parallel&) { b_saw_a = meet(b, a.event); }));
  lanes.compute->synchronize();
  lanes.comm->synchronize();
  EXPECT_TRUE(a_saw_b && b_saw_a);
}

TEST(CpuDevice, AnEventCoversWhatWasEnqueuedBeforeItAndNothingElse) {
  Lanes lanes;
  Flag gate;
  int value = 0, seen = 0;
  lanes.compute->launch(work("write", [&](Parallel&) { value = 1; }));
  const Event ready = lanes.compute->record();
  lanes.compute->wait(gate.event);  // what follows on compute cannot run yet
  lanes.compute->launch(work("later", [&](Parallel&) { value = 2; }));
  lanes.comm->wait(ready);
  lanes.comm->launch(work("read", [&](Parallel&) { seen = value; }));
  lanes.comm->synchronize();
  EXPECT_EQ(seen, 1);
  gate.raise();
  lanes.compute->synchronize();
  EXPECT_EQ(value, 2);
}

TEST(CpuDevice, AnEmptyEventIsDone) {
  Lanes lanes;
  lanes.compute->wait(Event());
  lanes.compute->synchronize();
  EXPECT_TRUE(Event().done());
}

TEST(CpuDevice, EventsOutliveTheirStream) {
  Event event;
  {
    Lanes lanes;
    event = lanes.compute->record();
    lanes.compute->synchronize();
  }
  EXPECT_TRUE(event.done());
  EXPECT_FALSE(event.failed());
}

TEST(CpuDevice, WorkThatThrowsPoisonsItsStream) {
  Lanes lanes({.threads = 2});
  bool later = false;
  lanes.compute->launch(work("experts", [](Parallel&) { throw Error(Code::capacity, "no room"); }));
  lanes.compute->launch(work("later", [&](Parallel&) { later = true; }));
  const Event after = lanes.compute->record();
  EXPECT_EQ(code_of(*lanes.compute), Code::capacity);
  EXPECT_EQ(failure_of(*lanes.compute), "no room")
      << "the first failure is rethrown until it is cleared";
  EXPECT_FALSE(later);
  EXPECT_TRUE(after.failed());
  EXPECT_EQ(after.state()->failure(), "u0/L3/experts: no room");
  lanes.compute->clear_failure();
  lanes.compute->launch(work("again", [&](Parallel&) { later = true; }));
  lanes.compute->synchronize();
  EXPECT_TRUE(later);
  EXPECT_FALSE(lanes.compute->record().failed());
}

TEST(CpuDevice, AFailedEventPoisonsWhoWaits) {
  Lanes lanes;
  lanes.compute->launch(work("attention", [](Parallel&) { throw std::runtime_error("broken"); }));
  bool sent = false;
  lanes.comm->launch(work("dispatch", [](Parallel&) {}));
  lanes.comm->wait(lanes.compute->record());
  lanes.comm->launch(work("send", [&](Parallel&) { sent = true; }));
  EXPECT_EQ(
      failure_of(*lanes.comm),
      "comm, after u0/L3/dispatch: the end of u0/L3/attention failed: u0/L3/attention: broken");
  EXPECT_EQ(code_of(*lanes.comm), Code::aborted);
  EXPECT_FALSE(sent);
  EXPECT_THROW(lanes.compute->synchronize(), std::runtime_error);
}

TEST(CpuDevice, APeersFailureCarriesItsReason) {
  Lanes lanes;
  Flag flag;
  lanes.compute->wait(flag.event);
  flag.fail("rank 3 aborted: out of memory");
  EXPECT_THAT(failure_of(*lanes.compute), HasSubstr("compute, before any work"));
  EXPECT_THAT(failure_of(*lanes.compute), HasSubstr("rank 3 aborted: out of memory"));
}

TEST(CpuDevice, AnEventThatNeverComesTimesOut) {
  Lanes lanes({.wait_timeout = milliseconds(1)});
  Flag flag;
  lanes.comm->launch(work("dispatch", [](Parallel&) {}));
  lanes.comm->wait(flag.event);
  const Event after = lanes.comm->record();
  EXPECT_EQ(code_of(*lanes.comm), Code::timeout);
  EXPECT_EQ(failure_of(*lanes.comm),
            "comm, after u0/L3/dispatch: no sign of the end of u0/flag for 1 ms");
  EXPECT_TRUE(after.failed());
  flag.raise();  // too late, but harmless
  lanes.comm->clear_failure();
  lanes.comm->wait(flag.event);
  EXPECT_EQ(code_of(*lanes.comm), Code::ok);
}

TEST(CpuDevice, APoisonedStreamDoesNotWait) {
  Lanes lanes({.wait_timeout = std::chrono::hours(1)});
  Flag never;
  lanes.compute->launch(work("bad", [](Parallel&) { throw std::runtime_error("broken"); }));
  lanes.compute->wait(never.event);
  EXPECT_EQ(failure_of(*lanes.compute), "broken");
}

TEST(CpuDevice, ADestroyedStreamDropsItsQueue) {
  CpuDevice device({.wait_timeout = std::chrono::hours(1)});
  auto stream = device.make_stream("compute");
  Flag began, gate;
  bool ran = false;
  stream->launch(work("first", [&](Parallel&) {
    began.raise();
    gate.event.state()->wait_until(Clock::now() + std::chrono::seconds(60));
  }));
  stream->launch(work("second", [&](Parallel&) { ran = true; }));
  const Event end = stream->record();
  began.event.state()->wait_until(Clock::now() + std::chrono::seconds(60));
  std::thread destroyer([&] { stream.reset(); });
  // The destructor cannot return before the gate opens, and sets its flag before it waits: if the
  // gate opened earlier, the second body may still run. Only the events are then certain.
  gate.raise();
  destroyer.join();
  EXPECT_TRUE(end.done());
  EXPECT_EQ(end.failed(), !ran);
}

TEST(CpuDevice, FlushesDenormalsOnEveryThread) {
  Lanes lanes({.threads = 3});
  std::atomic<int> kept{0};
  const auto probe = [&kept](Parallel& parallel) {
    parallel.run(1000, [&](int64_t, int) {
      volatile float tiny = std::numeric_limits<float>::min(),
                     denormal = std::numeric_limits<float>::denorm_min();
      volatile float result = tiny * 0.5F, input = denormal * 2.0F;
      if (result != 0.0F || input != 0.0F) ++kept;
    });
  };
  lanes.compute->launch(work("a", probe));
  lanes.comm->launch(work("b", probe));
  lanes.compute->synchronize();
  lanes.comm->synchronize();
  EXPECT_EQ(kept.load(), 0);
}

// Many small items between two lanes, each handed over by an event: what the sanitizers should see.
TEST(CpuDevice, HandsManyItemsBetweenLanes) {
  Lanes lanes({.threads = 2});
  constexpr int kItems = 3000;
  std::vector<int64_t> values(kItems, 0);
  int64_t sum = 0;
  for (int i = 0; i < kItems; ++i) {
    lanes.compute->launch(work("fill", [&values, i](Parallel& parallel) {
      std::array<int64_t, 3> part{};
      parallel.run(3, [&](int64_t index, int) { part[static_cast<size_t>(index)] = i; });
      values[static_cast<size_t>(i)] = part[0] + part[1] + part[2];
    }));
    lanes.comm->wait(lanes.compute->record());
    lanes.comm->launch(
        work("sum", [&values, &sum, i](Parallel&) { sum += values[static_cast<size_t>(i)]; }));
    if (i % 10 == 0) lanes.compute->wait(lanes.comm->record());
    if (i % 1000 == 0) lanes.compute->synchronize();
  }
  lanes.comm->synchronize();
  EXPECT_EQ(sum, int64_t{3} * kItems * (kItems - 1) / 2);
}

}  // namespace
}  // namespace hocket::device::cpu
