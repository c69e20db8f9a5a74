#include "device/cpu/pool.h"

#include <gtest/gtest.h>

#include <set>

namespace hocket::device::cpu {
namespace {

TEST(Pool, CallsEveryIndexOnce) {
  for (int width : {1, 2, 3, 5}) {
    Pool pool(width);
    EXPECT_EQ(pool.width(), width);
    for (int64_t count : {0, 1, 2, 3, 7, 100, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      std::atomic<int> bad_workers{0};
      pool.run(count, [&](int64_t index, int worker) {
        ++calls[static_cast<size_t>(index)];
        if (worker < 0 || worker >= width) ++bad_workers;
      });
      for (const auto& n : calls)
        EXPECT_EQ(n.load(), 1) << width << " threads, " << count << " indices";
      EXPECT_EQ(bad_workers.load(), 0);
    }
  }
}

TEST(Pool, OneIndexRunsOnTheCaller) {
  Pool pool(3);
  std::thread::id where;
  pool.run(1, [&](int64_t, int worker) {
    where = std::this_thread::get_id();
    EXPECT_EQ(worker, 0);
  });
  EXPECT_EQ(where, std::this_thread::get_id());
}

// Both bodies must be inside at once: only two threads can do that.
TEST(Pool, ThreadsTakePart) {
  Pool pool(2);
  Bell inside;
  pool.run(2, [&](int64_t, int) {
    inside.ring();
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    while (inside.count() < 2 && Clock::now() < deadline) inside.wait(inside.count(), deadline);
    EXPECT_EQ(inside.count(), 2u);
  });
}

// Concurrent bodies never share a worker number: it indexes scratch memory.
TEST(Pool, AWorkerNumberIsUsedByOneThreadAtATime) {
  Pool pool(3);
  std::array<std::atomic<int>, 3> busy{};
  std::atomic<int> clashes{0};
  for (int round = 0; round < 200; ++round) {
    pool.run(20, [&](int64_t, int worker) {
      auto& mine = busy[static_cast<size_t>(worker)];
      if (mine.fetch_add(1) != 0) ++clashes;
      mine.fetch_sub(1);
    });
  }
  EXPECT_EQ(clashes.load(), 0);
}

TEST(Pool, RethrowsTheFirstExceptionAndCanBeUsedAgain) {
  for (int width : {1, 2, 4}) {
    Pool pool(width);
    for (int64_t bad : {0, 1, 50, 99}) {
      const auto failing = [&](int64_t index, int) {
        if (index == bad) throw Error(Code::bad_input, "index " + std::to_string(index));
      };
      try {
        pool.run(100, failing);
        ADD_FAILURE() << "no exception from index " << bad << " of " << width << " threads";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::bad_input);
        EXPECT_EQ(error.what(), "index " + std::to_string(bad));
      }
      std::atomic<int> calls{0};
      pool.run(100, [&](int64_t, int) { ++calls; });
      EXPECT_EQ(calls.load(), 100);
    }
  }
}

TEST(Pool, EveryBodyMayThrow) {
  Pool pool(4);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(pool.run(8, [](int64_t, int) { throw std::runtime_error("each"); }),
                 std::runtime_error);
  }
}

// Short jobs one after another: late threads meet the next job, or none.
TEST(Pool, SurvivesManyShortJobs) {
  Pool pool(3);
  int64_t total = 0;
  for (int64_t round = 0; round < 5000; ++round) {
    std::array<int64_t, 4> parts{};
    pool.run(4, [&](int64_t index, int) { parts[static_cast<size_t>(index)] = round + index; });
    for (int64_t part : parts) total += part;
  }
  EXPECT_EQ(total, int64_t{4} * 5000 * 4999 / 2 + 5000 * 6);
}

TEST(Pool, RefusesNoThreads) { EXPECT_THROW(Pool(0), InvariantError); }

TEST(Bell, AWaitEndsAtItsDeadline) {
  const Bell bell;
  EXPECT_FALSE(bell.wait(0, Clock::now() - std::chrono::seconds(1)));
  EXPECT_FALSE(bell.wait(0, Clock::now() + std::chrono::microseconds(100)));
}

TEST(Bell, WakesAllSleepers) {
  Bell bell;
  std::vector<std::thread> threads;
  std::atomic<int> woken{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (uint32_t seen = 0; seen < 1000; seen = bell.count()) {
        if (!bell.wait(seen, Clock::now() + std::chrono::seconds(60))) return;
      }
      ++woken;
    });
  }
  for (int i = 0; i < 1000; ++i) bell.ring();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(woken.load(), 4);
}

}  // namespace
}  // namespace hocket::device::cpu
