// What goes wrong on one rank reaches all of them, in bounded time, and is gone after reform().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>

#include "comm/harness.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/seeded.h"

namespace hocket::comm {
namespace {

using namespace harness;  // NOLINT(google-build-using-namespace): the test's own
using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr std::array kBackends{Backend::high_throughput, Backend::low_latency, Backend::allgather};

Config small(int ranks, Backend backend = Backend::high_throughput) {
  return {.ranks = ranks, .experts = 12, .top_k = 3, .hidden = 32, .max_tokens = 9, .backend = backend};
}

/// Clean rounds after reform(): status ok, every bit right.
void expect_recovery(Ends& ends, const Config& config) {
  ASSERT_TRUE(reform_all(ends));
  for (const auto& end : ends) EXPECT_EQ(end->status().code, Code::ok);
  Play play({.config = config, .tokens = draw_tokens(config, 5, 10, 2, 77), .seed = 77});  // 100 rounds a rank
  EXPECT_EQ(play_seeded(play, ends, 5), 0);
  for (const auto& end : ends) EXPECT_EQ(end->status().code, Code::ok);
}

struct Guilt {
  Code code;
  std::vector<int> ranks;
};

TEST(Fault, TR04_TR20_TR27_GuiltySourcesHaveNoRowsAndAllRanksKnow) {
  for (const Backend backend : kBackends) {
    for (const Guilt& guilt : {Guilt{Code::capacity, {1}}, {Code::bad_id, {0}}, {Code::bad_id, {1, 2}}, {Code::capacity, {0, 1, 2}}}) {
      SCOPED_TRACE(testing::Message() << name(backend) << " " << hocket::name(guilt.code));
      const Config config = small(3, backend);
      const auto guilty = [&](int rank) { return std::count(guilt.ranks.begin(), guilt.ranks.end(), rank) > 0; };
      Tokens tokens(1, {4, {std::vector<int64_t>(3, config.max_tokens)}});
      for (const int rank : guilt.ranks) tokens[0][1][0][static_cast<size_t>(rank)] += guilt.code == Code::capacity ? 1 : 0;
      const auto edit = [&](ReferenceInput& input, int, int layer, int, int rank) {
        if (guilt.code == Code::bad_id && layer == 1 && guilty(rank)) input.expert[5] = rank == 1 ? -2 : config.experts;
      };
      Hub hub(3);
      Ends ends = open_all(config, hub, {.poison = TestHooks::Poison::on});
      Play play({.config = config, .tokens = tokens, .edit = edit});
      for (uint64_t seed = 0; seed < 5; ++seed) {
        ASSERT_EQ(play_seeded(play, ends, seed), 0);  // rounds 1, 3 and 4 are whole: no code outlives its round (TR-30)
        for (const auto& end : ends) {
          const Status status = end->status();
          EXPECT_EQ(status.code, guilt.code);
          EXPECT_EQ(status.epoch, ends[0]->status().epoch);
          uint64_t peers = 0;
          for (const int rank : guilt.ranks) peers |= uint64_t{1} << rank;
          EXPECT_EQ(status.peers, peers);
          EXPECT_THAT(status.what, HasSubstr(std::string(hocket::name(guilt.code))));
        }
      }
      ASSERT_NO_FATAL_FAILURE(expect_recovery(ends, config));
    }
  }
}

TEST(Fault, TR28_AThrowAtAnyPointEndsTheStepOnAllRanks) {
  for (const Backend backend : kBackends) {
    for (const std::string_view where : {"plan", "push", "publish", "unpack", "combine", "home_sum"}) {
      for (int guilty = 0; guilty < 3; ++guilty) {
        SCOPED_TRACE(testing::Message() << name(backend) << " " << where << " on rank " << guilty);
        const Config config = small(3, backend);
        std::atomic<int> countdown{5};
        Hub hub(3);
        Ends ends = open_all(config, hub, [&](int rank) {
          TestHooks hooks;
          if (rank == guilty) {
            hooks.at = [&](std::string_view point, int) {
              if (point == where && --countdown == 0) throw Error(Code::internal, "by the test");
            };
          }
          return hooks;
        });
        Play play({.config = config, .tokens = draw_tokens(config, 1, 8, 2, 3)});
        EXPECT_THROW(play_threads(play, ends, 1), Error);
        for (const auto& end : ends) {
          EXPECT_EQ(end->status().code, Code::aborted);
          EXPECT_EQ(end->status().what, ends[0]->status().what);
        }
        ASSERT_NO_FATAL_FAILURE(expect_recovery(ends, config));
      }
    }
  }
}

TEST(Fault, AnUnfinishedRoundAbortsTheGroup) {
  const Config config = small(3);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Hub hub(3);
    Ends ends = open_all(config, hub);
    Play play({.config = config, .tokens = draw_tokens(config, 1, 3, 2, seed)});
    device::cpu::SeededDevice device(seed);
    std::vector<std::unique_ptr<device::Stream>> streams;
    for (int i = 0; i < 6; ++i) streams.push_back(device.make_stream("lane"));
    play.enqueue(0, 0, *ends[0], *streams[0], *streams[1]);
    play.enqueue(2, 0, *ends[2], *streams[4], *streams[5]);
    device::Arena arena(64);
    dbo::Ubatch ub{.compute = *streams[2], .comm = *streams[3], .arena = arena};
    { const Round round(*ends[1], ub); }
    device.drain();  // no deadlock
    EXPECT_THROW(streams[0]->synchronize(), Error);
    EXPECT_THROW(streams[4]->synchronize(), Error);
    for (const auto& end : ends) EXPECT_EQ(end->status().code, Code::aborted);
    EXPECT_EQ(ends[0]->status().peers, 2U);
    ASSERT_NO_FATAL_FAILURE(expect_recovery(ends, config));
  }
}

TEST(Fault, AbortFromAnyThreadWakesSleepers) {
  const Config config = small(2);
  Hub hub(2);
  Ends ends = open_all(config, hub);
  Play play({.config = config, .tokens = draw_tokens(config, 1, 1, 1, 1)});
  device::cpu::CpuDevice device({});
  const auto compute = device.make_stream("compute");
  const auto comm = device.make_stream("comm");
  play.enqueue(0, 0, *ends[0], *compute, *comm);  // rank 1 never comes
  std::thread other([&] { ends[1]->abort(Code::peer_lost, "the test"); });
  std::string text;
  try {
    compute->synchronize();
  } catch (const Error& error) {
    text = error.what();
  }
  other.join();
  EXPECT_THAT(text, HasSubstr("rank 1: the test"));
  EXPECT_EQ(ends[0]->status().code, Code::peer_lost);
  ends[0]->abort(Code::aborted, "too late to count");
  EXPECT_EQ(ends[1]->status().code, Code::peer_lost);
}

TEST(Fault, ALatePeerIsNamedAfterTheTimeout) {
  Config config = small(3);
  config.open_timeout = milliseconds(2'000);
  Hub hub(3);
  Ends ends = open_all(config, hub);
  ASSERT_NE(ends[0], nullptr);
  Play play({.config = config, .tokens = draw_tokens(config, 1, 1, 1, 1)});
  device::cpu::CpuDevice device({});
  const auto compute = device.make_stream("compute");
  const auto comm = device.make_stream("comm");
  play.enqueue(0, 0, *ends[0], *compute, *comm);
  EXPECT_THROW(compute->synchronize(), Error);
  const Status status = ends[2]->status();
  EXPECT_EQ(status.code, Code::timeout);
  EXPECT_EQ(status.peers, 6U);
  EXPECT_THAT(status.what, HasSubstr("dispatch of round 1 on slot 0 from rank 1, 2"));
}

TEST(Fault, CallsOutOfOrderAreRefused) {
  const Config config = small(1);
  Hub hub(1);
  Ends ends = open_all(config, hub);
  device::cpu::SeededDevice device(1);
  const auto stream = device.make_stream("compute");
  device::Arena arena(64);
  dbo::Ubatch ub{.compute = *stream, .comm = *stream, .arena = arena};
  Slot& slot = ends[0]->lease(ub);
  EXPECT_THROW(slot.received(), InvariantError);
  EXPECT_THROW(slot.combine(ub, {}), InvariantError);
  EXPECT_THROW(slot.finish(ub, {}), InvariantError);
  dbo::Transfer& transfer = slot.dispatch(ub, {}, {});
  EXPECT_THROW(slot.dispatch(ub, {}, {}), InvariantError);
  EXPECT_THROW(transfer.receive(*stream), InvariantError);
  EXPECT_THROW(ends[0]->lease(ub), InvariantError);  // one round at a time for a ubatch
  ub.index = config.max_ubatches;
  EXPECT_THROW(ends[0]->lease(ub), InvariantError);
}

TEST(Fault, WrongShapesAreRefusedBeforeAnythingIsEnqueued) {
  const Config config = small(1);
  Hub hub(1);
  Ends ends = open_all(config, hub);
  device::cpu::SeededDevice device(1);
  const auto stream = device.make_stream("compute");
  device::Arena arena(1 << 16);
  dbo::Ubatch ub{.compute = *stream, .comm = *stream, .arena = arena};
  const auto x = arena.make(device::DType::bf16, {4, 32});
  const Routing good{arena.make(device::DType::i32, {4, 3}), arena.make(device::DType::f32, {4, 3})};
  Slot& slot = ends[0]->lease(ub);
  EXPECT_THROW(slot.dispatch(ub, arena.make(device::DType::bf16, {4, 48}), good), ShapeError);
  EXPECT_THROW(slot.dispatch(ub, arena.make(device::DType::f32, {4, 32}), good), ShapeError);
  EXPECT_THROW(slot.dispatch(ub, x, {arena.make(device::DType::i32, {3, 3}), good.weight}), ShapeError);
  EXPECT_THROW(slot.dispatch(ub, x, {good.expert, arena.make(device::DType::bf16, {4, 3})}), ShapeError);
  EXPECT_THROW(slot.dispatch(ub, x.slice(0, 0), good), ShapeError);
  EXPECT_NO_THROW(slot.dispatch(ub, x, good));  // a refused call left the slot as it was
}

TEST(Fault, DelaysAnywhereChangeNothing) {
  for (const Backend backend : kBackends) {
    const Config config = small(3, backend);
    Hub hub(3);
    Ends ends = open_all(config, hub, [](int rank) {
      return TestHooks{.at = [rank, calls = std::make_shared<std::atomic<int>>(0)](std::string_view, int) {
        if ((++*calls * 7 + rank) % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      }};
    });
    Play play({.config = config, .tokens = draw_tokens(config, 2, 5, 2, 8)});
    EXPECT_EQ(play_threads(play, ends, 1), 0);
  }
}

}  // namespace
}  // namespace hocket::comm
