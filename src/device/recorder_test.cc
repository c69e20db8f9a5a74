#include "device/recorder.h"

#include <gtest/gtest.h>

#include <thread>

#include "device/cpu/cpu_device.h"

namespace hocket::device {
namespace {

TEST(Recorder, StreamsWriteTheirLaunchesInOrder) {
  Recorder recorder;
  {
    cpu::CpuDevice device({.recorder = &recorder, .rank = 3});
    const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
    compute->launch({{"attention", 0, 12}, {.flops = 8, .memory_bytes = 5}, [](Parallel&) {}});
    comm->wait(compute->record());
    comm->launch({{"dispatch", 0, 12}, {.wire_bytes = 7}, [](Parallel&) {}});
    comm->synchronize();
  }
  const auto spans = recorder.spans();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].lane, "comm");
  EXPECT_EQ(spans[0].name, "u0/L12/dispatch");
  EXPECT_EQ(spans[0].rank, 3);
  EXPECT_EQ(spans[0].args, (std::vector<std::pair<std::string, int64_t>>{{"wire_bytes", 7}}));
  EXPECT_EQ(spans[1].name, "u0/L12/attention");
  EXPECT_LE(spans[1].begin_ns, spans[1].end_ns);
  EXPECT_LE(spans[1].end_ns, spans[0].begin_ns);
}

TEST(Recorder, ForgetsTheOldestAndCountsThem) {
  Recorder recorder(2500);
  LaneRecorder& lane = recorder.lane(0, "host");
  EXPECT_EQ(&lane, &recorder.lane(0, "host"));
  for (int i = 0; i < 6000; ++i) lane.add_step({.number = i, .tokens = 3, .attention_pairs = 4, .uniform_query = 1, .ubatches = 2}, Clock::now(), Clock::now());
  const auto spans = recorder.spans();
  ASSERT_EQ(spans.size(), 2500U);
  for (size_t i = 0; i < spans.size(); ++i) EXPECT_EQ(spans[i].name, "step " + std::to_string(3500 + i));
  EXPECT_EQ(recorder.dropped(), 3500);
}

TEST(Recorder, WorkThatAFailedStreamDropsIsNotThere) {
  Recorder recorder;
  {
    cpu::CpuDevice device({.recorder = &recorder});
    const auto compute = device.make_stream("compute");
    compute->launch({{"bad"}, {}, [](Parallel&) { throw Error(Code::internal, "no"); }});
    compute->launch({{"dropped"}, {}, [](Parallel&) {}});
    EXPECT_THROW(compute->synchronize(), Error);
  }
  ASSERT_EQ(recorder.spans().size(), 1U);
  EXPECT_EQ(recorder.spans()[0].name, "u0/bad");
}

TEST(Recorder, RanksWriteAtTheSameTime) {
  Recorder recorder;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      LaneRecorder& lane = recorder.lane(rank, "compute");
      for (int i = 0; i < 3000; ++i) lane.add({"x"}, {}, Clock::now(), Clock::now());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(recorder.spans().size(), 12'000U);
  EXPECT_EQ(recorder.dropped(), 0);
}

}  // namespace
}  // namespace hocket::device
