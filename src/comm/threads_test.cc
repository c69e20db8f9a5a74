#include "comm/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "comm/harness.h"

namespace hocket::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Config small(int ranks) { return {.ranks = ranks, .experts = 12, .top_k = 3, .hidden = 32, .max_tokens = 9}; }

/// Each rank's failure text, or "".
std::vector<std::string> open_each(const std::vector<Config>& configs, Hub& hub) {
  std::vector<std::string> failures(configs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < configs.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto opened = open(configs[i], hub);
      if (!opened) failures[i] = opened.error().message;
    });
  }
  for (auto& thread : threads) thread.join();
  return failures;
}

TEST(Open, TR05_ADifferenceIsNamedOnEveryRank) {
  const auto refuse = [](auto change) {
    std::vector<Config> configs(3, small(3));
    for (size_t r = 0; r < 3; ++r) configs[r].rank = static_cast<int>(r);
    change(configs[2]);
    Hub hub(3);
    return open_each(configs, hub);
  };
  for (const std::string& text : refuse([](Config& c) { c.max_tokens = 128; })) {
    EXPECT_THAT(text, HasSubstr("max_tokens is 9 on rank 0 and 128 on rank 2"));
  }
  for (const std::string& text : refuse([](Config& c) { c.wire = Wire::fp8_f32; })) {
    EXPECT_THAT(text, HasSubstr("wire is bf16 on rank 0 and fp8_f32 on rank 2"));
  }
  const auto bad = refuse([](Config& c) { c.hidden = 7; });  // the others learn of it without waiting
  EXPECT_THAT(bad[0], HasSubstr("hidden is 32 on rank 0 and 7 on rank 2"));
  EXPECT_THAT(bad[2], HasSubstr("hidden = 7"));
}

TEST(Open, TR05_AMissingRankIsNamed) {
  Config config = small(3);
  config.open_timeout = milliseconds(20);
  Hub hub(3);
  const auto failures = open_each({config}, hub);
  EXPECT_THAT(failures[0], HasSubstr("rank 0 waited 20 ms for ranks 1, 2"));
}

TEST(Open, TR05_ARankThatComesTwiceIsRefused) {
  Hub hub(1);
  const auto first = open(small(1), hub);
  ASSERT_TRUE(first.has_value());
  const auto second = open(small(1), hub);
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().message, HasSubstr("rank 0 joined twice"));
}

TEST(Open, AGroupThatFailedCanTryAgain) {
  Hub hub(2);
  Config a = small(2), b = small(2);
  b.rank = 1;
  b.top_k = 5;
  open_each({a, b}, hub);
  b.top_k = a.top_k;
  EXPECT_EQ(open_each({a, b}, hub), std::vector<std::string>(2));
}

TEST(Reform, MasksThatLeaveARankOutAreRefused) {
  const Config config = small(2);
  Hub hub(2);
  auto ends = harness::open_all(config, hub);
  std::vector<Status> status(2);
  std::thread other([&] { status[1] = ends[1]->reform(3); });
  status[0] = ends[0]->reform(1);
  other.join();
  for (const Status& each : status) {
    EXPECT_EQ(each.code, Code::config);
    EXPECT_THAT(each.what, HasSubstr("live ranks 0x1 on rank 0"));
  }
  EXPECT_TRUE(harness::reform_all(ends));
}

TEST(Link, TakesItsTimeAndKeepsEveryBit) {
  const Config config = small(2);
  constexpr Link kLink{.bytes_per_second = 4e6, .latency = milliseconds(1)};
  Hub hub(2, kLink);
  auto ends = harness::open_all(config, hub);
  harness::Play play({.config = config, .tokens = harness::draw_tokens(config, 1, 6, 2, 3), .seed = 3});
  const auto begin = device::Clock::now();
  EXPECT_EQ(harness::play_threads(play, ends, 1), 0);
  const double seconds = std::chrono::duration<double>(device::Clock::now() - begin).count();
  for (const auto& end : ends) EXPECT_GE(seconds, static_cast<double>(end->wire_bytes()) / kLink.bytes_per_second);
  EXPECT_GE(seconds, 12 * 1e-3);  // rounds of one ubatch follow each other, two latencies each
}

}  // namespace
}  // namespace hocket::comm
