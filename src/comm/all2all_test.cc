// Every back end gives the oracle's bits: for any ranks, tokens, routing and order of events.
#include "comm/all2all.h"

#include <gtest/gtest.h>

#include <array>

#include "comm/harness.h"

namespace hocket::comm {
namespace {

using namespace harness;  // NOLINT(google-build-using-namespace): the test's own

constexpr std::array kBackends{Backend::high_throughput, Backend::low_latency, Backend::allgather};
constexpr std::array kWires{Wire::bf16, Wire::fp8_f32};

Config small(int ranks, Backend backend, Wire wire) {
  return {.ranks = ranks, .experts = 24, .top_k = 4, .hidden = 144, .max_tokens = 9, .backend = backend, .wire = wire};
}

struct Kind {
  Backend backend;
  Wire wire;
};
class EveryKind : public testing::TestWithParam<Kind> {};
std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const Backend backend : kBackends) {
    for (const Wire wire : kWires) all.push_back({backend, wire});
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, EveryKind, testing::ValuesIn(kinds()), [](const auto& test) {
  return std::string(name(test.param.backend)) + (test.param.wire == Wire::bf16 ? "_bf16" : "_fp8");
});

TEST_P(EveryKind, TR18_AnyRankCountGivesTheOraclesBits) {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 12}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, seed " << seed);
      Config config = small(ranks, GetParam().backend, GetParam().wire);
      config.expert_align = seed % 2 == 0 ? 1 : 4;
      Hub hub(ranks);
      auto ends = open_all(config, hub, {.poison = TestHooks::Poison::on});
      Play play({.config = config, .tokens = draw_tokens(config, 1, 3, 1, seed), .seed = seed,
                 .draw = {.dropped = static_cast<int>(seed % 3) * 2, .skew = static_cast<int>(seed % 2) * 7,
                          .repeats = static_cast<int>(seed % 4)}});
      ASSERT_EQ(play_seeded(play, ends, seed), 0);
    }
  }
}

TEST_P(EveryKind, TR01_TR02_RanksWithoutTokensTakePart) {
  for (const std::vector<int64_t>& tokens : {std::vector<int64_t>{5, 0}, {0, 5}, {0, 0}, {0, 3, 0, 1}, {0, 0, 0}}) {
    const Config config = small(static_cast<int>(tokens.size()), GetParam().backend, GetParam().wire);
    Hub hub(config.ranks);
    auto ends = open_all(config, hub, {.poison = TestHooks::Poison::on});
    Play play({.config = config, .tokens = Tokens(1, {10, {tokens, tokens}})});
    ASSERT_EQ(play_seeded(play, ends, 1), 0);
  }
}

TEST_P(EveryKind, TR17_TR19_AnyHiddenSizeAndTopK) {
  for (const int hidden : {16, 128, 2880, 2944}) {
    for (const int top_k : {1, 8, 12, 22, 32}) {
      Config config = small(2, GetParam().backend, GetParam().wire);
      config.hidden = hidden;
      config.top_k = top_k;
      config.max_tokens = 3;
      Hub hub(2);
      auto ends = open_all(config, hub, {.poison = TestHooks::Poison::on});
      Play play({.config = config, .tokens = draw_tokens(config, 1, 2, 1, 5)});
      ASSERT_EQ(play_seeded(play, ends, 1), 0) << hidden << " " << top_k;
    }
  }
}

TEST_P(EveryKind, TR20_TR21_TR26_DroppedAndRepeatedChoices) {
  const Config config = small(2, GetParam().backend, GetParam().wire);
  const auto edit = [](ReferenceInput& input, int, int layer, int, int) {
    for (size_t i = 0; i < input.expert.size(); ++i) {
      constexpr std::array kPairs{17, 17, 3, 3};  // not ascending, and every one twice
      if (layer == 0) input.expert[i] = -1;
      if (layer == 1) input.expert[i] = kPairs[i % 4];
      if (layer == 2) input.expert[i] = i < 4 ? 23 - static_cast<int>(i) : -1;  // one real token, the rest is padding
      if (layer == 3) input.expert[i] = 5;  // all rows of all ranks to one expert
    }
  };
  Hub hub(2);
  auto ends = open_all(config, hub, {.poison = TestHooks::Poison::on});
  Play play({.config = config, .tokens = Tokens(1, {4, {{9, 9}}}), .edit = edit});
  ASSERT_EQ(play_seeded(play, ends, 3), 0);
}

TEST_P(EveryKind, TR07_TR08_TR09_TR10_EveryOrderGivesTheSameBits) {
  int orders = 0;
  for (uint64_t seed = 0; seed < 192; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const int ranks = 2 + static_cast<int>(seed % 3);
    const int ubatches = 1 + static_cast<int>(seed / 3 % 4);
    Config config = small(ranks, GetParam().backend, GetParam().wire);
    config.hidden = 32;
    config.max_ubatches = ubatches;
    config.slots_per_ubatch = 1 + static_cast<int>(seed / 12 % 2);
    Hub hub(ranks);
    auto ends = open_all(config, hub, {.poison = TestHooks::Poison::on});
    Play play({.config = config, .tokens = draw_tokens(config, 2, 3, ubatches, seed), .seed = seed});
    ASSERT_EQ(play_seeded(play, ends, seed), 0);
    ++orders;
  }
  EXPECT_EQ(orders, 192);
}

TEST_P(EveryKind, TR13_AnySequenceOfSplitAndWholeSteps) {
  const Config config = small(2, GetParam().backend, GetParam().wire);
  Hub hub(2);
  auto ends = open_all(config, hub, {.poison = TestHooks::Poison::on});
  for (const int ubatches : {2, 1, 2, 2, 1, 1, 2}) {
    for (const int layers : {3, 2}) {  // odd: the slots' turns start anew in every step
      Play play({.config = config, .tokens = Tokens(1, {static_cast<size_t>(layers), {static_cast<size_t>(ubatches), {9, 9}}})});
      ASSERT_EQ(play_seeded(play, ends, 9), 0);
    }
  }
}

TEST_P(EveryKind, Epochs_NearTheBoundariesOfTheWord) {
  for (const uint64_t first : {uint64_t{0xFE}, uint64_t{0xFFFE}, (uint64_t{1} << 32) - 2, (uint64_t{1} << 40) - 40}) {
    const Config config = small(2, GetParam().backend, GetParam().wire);
    Hub hub(2);
    TestHooks hooks;
    hooks.first_round = first;
    auto ends = open_all(config, hub, hooks);
    Play play({.config = config, .tokens = draw_tokens(config, 4, 3, 2, first)});
    ASSERT_EQ(play_seeded(play, ends, first), 0);
  }
}

TEST_P(EveryKind, TR24_RealThreads) {
  for (const int ranks : {1, 2, 3}) {
    Config config = small(ranks, GetParam().backend, GetParam().wire);
    config.max_tokens = 40;  // several grains
    Hub hub(ranks);
    auto ends = open_all(config, hub, {.poison = TestHooks::Poison::on});
    Play play({.config = config, .tokens = draw_tokens(config, 3, 4, 2, static_cast<uint64_t>(ranks))});
    ASSERT_EQ(play_threads(play, ends, 2), 0);
  }
}

TEST(Backends, TR10_TwoGroupsDoNotSeeEachOther) {
  const Config config = small(2, Backend::high_throughput, Wire::bf16);
  Hub hub_a(2), hub_b(2);
  auto a = open_all(config, hub_a);
  auto b = open_all(config, hub_b);
  Play play_a({.config = config, .tokens = draw_tokens(config, 2, 3, 2, 1), .seed = 1});
  Play play_b({.config = config, .tokens = draw_tokens(config, 2, 3, 2, 2), .seed = 2});
  a[0]->abort(Code::aborted, "only this group");
  EXPECT_EQ(play_seeded(play_b, b, 4), 0);
  EXPECT_EQ(b[0]->status().code, Code::ok);
}

TEST(Backends, LongRunsKeepEveryBit) {
  Config config = small(2, Backend::high_throughput, Wire::bf16);
  config.hidden = 16;
  config.max_tokens = 3;
  Hub hub(2);
  auto ends = open_all(config, hub);
  Play play({.config = config, .tokens = draw_tokens(config, 250, 20, 2, 1)});  // 10,000 rounds a rank
  EXPECT_EQ(play_threads(play, ends, 1), 0);
}

TEST(WireBytes, AreThoseOfTheRouting) {
  for (const Kind kind : kinds()) {
    const Config config = small(4, kind.backend, kind.wire);
    Hub hub(4);
    auto ends = open_all(config, hub);
    Play play({.config = config, .tokens = draw_tokens(config, 1, 1, 1, 11), .seed = 11});
    ASSERT_EQ(play_seeded(play, ends, 1), 0);
    // Row: 288 bytes bf16, or 144 codes and two scales padded to 16; ids 16. Header: 7 words padded to 32.
    const int64_t row = (kind.wire == Wire::bf16 ? 288 : 144 + 16) + 16;
    std::vector<int64_t> expected(4);
    const auto& inputs = play.inputs(0, 0, 0);
    for (int r = 0; r < 4; ++r) {
      const ReferenceInput& input = inputs[static_cast<size_t>(r)];
      expected[static_cast<size_t>(r)] += 3 * 32;
      for (int64_t t = 0; t < input.tokens; ++t) {
        for (int owner = 0; owner < 4; ++owner) {
          if (owner == r) continue;
          int64_t experts = 0;
          for (int e = owner * 6; e < owner * 6 + 6; ++e) {
            const auto first = input.expert.begin() + t * 4;
            experts += std::find(first, first + 4, e) != first + 4;
          }
          if (experts > 0 || kind.backend == Backend::allgather) expected[static_cast<size_t>(r)] += row;
          expected[static_cast<size_t>(owner)] += experts * 288;
        }
      }
    }
    for (size_t r = 0; r < 4; ++r) EXPECT_EQ(ends[r]->wire_bytes(), expected[r]) << name(kind.backend) << " rank " << r;
  }
}

}  // namespace
}  // namespace hocket::comm
