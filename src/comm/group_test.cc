#include "comm/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>

namespace hocket::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kPatience{60'000};  // only a broken group takes that long

/// One engine loop per rank, fed by arrivals at random moments.
struct Script {
  explicit Script(int ranks) : group(ranks), inbox(static_cast<size_t>(ranks)), steps(static_cast<size_t>(ranks)) {}
  void run_rank(int rank) {
    auto& waiting = inbox[static_cast<size_t>(rank)];
    auto& mine = steps[static_cast<size_t>(rank)];
    int64_t backlog = 0;
    for (int64_t step = 0; group.await_work(rank); ++step) {
      backlog += waiting.exchange(0);
      dbo::StepRecord record{.step = step, .tokens = backlog > 0 ? 1 : 0};
      std::vector<dbo::StepRecord> records;
      try {
        records = group.exchange(rank, record, kPatience);
      } catch (const Error& error) {  // closed while this rank waited for the others
        if (error.code() != Code::aborted) ++disagreements;
        return;
      }
      int64_t total = 0;
      for (const auto& other : records) {
        if (other.step != step) ++disagreements;
        total += other.tokens;
      }
      mine.push_back(static_cast<char>(total));
      if (backlog > 0) {
        --backlog;
        ++served;
      }
      if (backlog > 0) group.wake();
    }
  }
  Group group;
  std::vector<std::atomic<int64_t>> inbox;
  std::vector<std::vector<char>> steps;
  std::atomic<int64_t> served{0}, disagreements{0};
};

TEST(Group, AG06_NoWakeIsLostAndNoRankStepsAlone) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const int64_t arrivals = 25'000;
    Script script(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { script.run_rank(rank); });
    std::mt19937_64 random(static_cast<uint64_t>(ranks));
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    const auto served_all = [&](int64_t count) {
      while (script.served < count && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
      return script.served >= count;
    };
    for (int64_t sent = 0; sent < arrivals;) {
      const auto burst = std::min<int64_t>(arrivals - sent, 1 + static_cast<int64_t>(random() % 3));
      for (int64_t i = 0; i < burst; ++i) {
        ++script.inbox[random() % static_cast<uint64_t>(ranks)];
        script.group.wake();
      }
      sent += burst;
      // Half of the arrivals meet a group that is falling asleep, the others a busy one.
      if (random() % 2 == 0 && !served_all(sent)) break;
    }
    EXPECT_TRUE(served_all(arrivals)) << ranks << " ranks served " << script.served << " of " << arrivals;
    script.group.close();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(script.disagreements, 0);
    for (const auto& steps : script.steps) EXPECT_TRUE(steps == script.steps[0]) << ranks << " ranks";
  }
}

TEST(Group, EveryRankGetsEveryRecord) {
  Group group(3);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      for (int64_t step = 0; step < 1000; ++step) {
        const auto records = group.exchange(rank, {.step = step, .tokens = rank * 1000 + step}, kPatience);
        for (int64_t r = 0; r < 3; ++r) wrong += records[static_cast<size_t>(r)].tokens != r * 1000 + step;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Group, AMissingRankIsNamed) {
  Group group(3);
  std::string text;
  try {
    group.exchange(1, {.step = 7}, milliseconds(1));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("step 7: rank 1 waited 1 ms for the records of rank 0, 2"));
  // The one that gave up does not count as present afterwards.
  EXPECT_THROW(group.exchange(0, {}, milliseconds(1)), Error);
}

TEST(Group, CloseEndsEveryWait) {
  Group group(2);
  std::atomic<int> ended{0};
  std::thread sleeper([&] { ended += !group.await_work(0); });
  std::thread waiter([&] {
    try {
      group.exchange(1, {}, kPatience);
    } catch (const Error& error) {
      ended += error.code() == Code::aborted;
    }
  });
  group.close();
  sleeper.join();
  waiter.join();
  EXPECT_EQ(ended, 2);
  EXPECT_FALSE(group.await_work(1));
}

TEST(Group, OneWakeOpensOneCycleForAll) {
  Group group(2);
  group.wake();
  EXPECT_TRUE(group.await_work(0));
  EXPECT_TRUE(group.await_work(1));  // opened already, though the wake is spent
  std::thread other([&] { group.exchange(0, {}, kPatience); });
  group.exchange(1, {}, kPatience);
  other.join();
  group.close();
  EXPECT_FALSE(group.await_work(0));
}

}  // namespace
}  // namespace hocket::comm
