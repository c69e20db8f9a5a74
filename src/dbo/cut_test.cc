// The worked tables of docs/dbo.md, word for word.
#include "dbo/cut.h"

#include <gtest/gtest.h>

#include <optional>

#include "dbo/agree.h"
#include "dbo/cut_testing.h"

namespace hocket::dbo {
namespace {

using Sizes = std::vector<int64_t>;
using Queries = std::vector<Sizes>;

constexpr CutPolicy kToken{.kind = CutKind::token}, kRequest{.kind = CutKind::request}, kAuto{};

Sizes ones(size_t count) { return Sizes(count, 1); }

TEST(Cut, TokenCutsAsTheTableSays) {
  struct Row {
    Sizes queries;
    int ubatches;
    Queries want;
  };
  const std::vector<Row> table{
      {{1, 1, 10, 1, 1}, 2, {{1, 1, 5}, {5, 1, 1}}},
      {{6, 2, 4, 4}, 2, {{6, 2}, {4, 4}}},
      {{3, 9, 3}, 2, {{3, 4}, {5, 3}}},
      {{2, 20}, 2, {{2, 9}, {11}}},
      {{7}, 2, {{3}, {4}}},
      {{1}, 2, {{}, {1}}},
      {ones(33), 2, {ones(16), ones(17)}},
      {{4, 4, 4}, 3, {{4}, {4}, {4}}},
      {{9}, 3, {{3}, {3}, {3}}},
      {{1, 1}, 3, {{}, {1}, {1}}},
      {{8}, 3, {{2}, {3}, {3}}},
      {{8, 1}, 1, {{8, 1}}},
      {{}, 2, {{}, {}}},
  };
  for (const Row& row : table) {
    const StepPlan plan = plan_of(row.queries);
    EXPECT_EQ(queries_of(plan, cut(plan, row.ubatches, kToken)), row.want)
        << testing::PrintToString(row.queries);
  }
}

TEST(Cut, AutoSnapsToBoundariesAsTheTableSays) {
  struct Row {
    Sizes queries, u0, u1;
  };
  const std::vector<Row> table{
      {{}, {}, {}},
      {{1}, {}, {1}},
      {{42}, {21}, {21}},
      {{42, 999}, {42, 478}, {521}},
      {{999, 42}, {520}, {479, 42}},
      {{4096, 4096, 4096, 4096}, {4096, 4096}, {4096, 4096}},
      {{4095, 4096, 4096, 4096, 1}, {4095, 4096}, {4096, 4096, 1}},
      {{1, 4095, 4096, 4096, 4096}, {1, 4095, 4096}, {4096, 4096}},
      {{4097, 4096, 4096, 4095, 1}, {4097, 4096}, {4096, 4095, 1}},
      {{1, 1, 1, 1, 99999}, {1, 1, 1, 1, 49997}, {50002}},
      {{99999, 1, 1, 1, 1}, {50001}, {49998, 1, 1, 1, 1}},
      {{8192, 1}, {4096}, {4096, 1}},
      {{480, 520}, {480}, {520}},
  };
  for (const Row& row : table) {
    const StepPlan plan = plan_of(row.queries);
    EXPECT_EQ(queries_of(plan, cut(plan, 2, kAuto)), (Queries{row.u0, row.u1}))
        << testing::PrintToString(row.queries);
  }
}

TEST(Cut, TheEdgeOfTheToleranceIsInside) {
  for (int64_t hundreds :
       {1, 7, 33, 100}) {  // a share of exactly 0.48 or 0.52, and one token beyond
    const int64_t low = 48 * hundreds, high = 52 * hundreds;
    EXPECT_EQ(sizes(cut(plan_of({low, high}), 2, kAuto)), (Sizes{low, high}));
    EXPECT_EQ(sizes(cut(plan_of({high, low}), 2, kAuto)), (Sizes{high, low}));
    EXPECT_EQ(sizes(cut(plan_of({low - 1, high + 1}), 2, kAuto)),
              (Sizes{50 * hundreds, 50 * hundreds}));
    EXPECT_EQ(sizes(cut(plan_of({high + 1, low - 1}), 2, kAuto)),
              (Sizes{50 * hundreds, 50 * hundreds}));
  }
}

TEST(Cut, RequestCutsBetweenRequestsOnly) {
  EXPECT_EQ(sizes(cut(plan_of({8192, 1}), 2, kRequest)), (Sizes{8192, 1}));
  EXPECT_EQ(sizes(cut(plan_of({1, 1, 10, 1, 1}), 2, kRequest)), (Sizes{12, 2}))
      << "a tie goes to the later boundary";
  EXPECT_EQ(sizes(cut(plan_of({3, 3, 3}), 2, kRequest)), (Sizes{6, 3}));
  EXPECT_EQ(sizes(cut(plan_of({42}), 2, kRequest)), (Sizes{42, 0})) << "one-sided";
  EXPECT_EQ(sizes(cut(plan_of({5, 5, 5, 5, 5, 5}), 3, kRequest)), (Sizes{10, 10, 10}));
}

TEST(Cut, UniformDecodesAreCutBetweenVerifyGroups) {
  const auto halves = [](int64_t requests) { return sizes(cut(decodes(requests), 2, kToken)); };
  EXPECT_EQ(halves(0), (Sizes{0, 0}));
  EXPECT_EQ(halves(1), (Sizes{0, 1}));
  EXPECT_EQ(halves(99), (Sizes{49, 50}));
  EXPECT_EQ(halves(100), (Sizes{50, 50}));
  EXPECT_EQ(sizes(cut(decodes(5, 4), 2, kAuto)), (Sizes{8, 12}));
  EXPECT_EQ(sizes(cut(decodes(7, 3), 3, kRequest)), (Sizes{6, 6, 9}));
}

TEST(Cut, SaysWhyAUbatchIsEmpty) {
  const auto cause = [](const StepPlan& plan, int ubatches, CutPolicy policy) {
    return cut(plan, ubatches, policy).cause;
  };
  EXPECT_EQ(cause(plan_of({}), 2, kAuto), CutCause::idle);
  EXPECT_EQ(cause(plan_of({1}), 2, kAuto), CutCause::shortage);
  EXPECT_EQ(cause(plan_of({1, 1}), 3, kToken), CutCause::shortage);
  EXPECT_EQ(cause(plan_of({42}), 2, kRequest), CutCause::request_cut);
  EXPECT_EQ(cause(decodes(1, 4), 2, kAuto), CutCause::request_cut);
  EXPECT_EQ(cause(plan_of({42}), 2, kToken), CutCause::none);
  EXPECT_EQ(cause(plan_of({42}), 1, kRequest), CutCause::none);
  EXPECT_THROW(cut(plan_of({42}), 0, kToken), InvariantError);
}

// A step of several ranks: how it is decided, and the tokens of u0 and u1 on each.
struct Step {
  int row;
  std::vector<StepPlan> ranks;
  Reason reason;
  Queries want;  // per rank
  int64_t prefill_threshold = 512;
};

std::vector<Step> worked_table() {
  const auto p = [](int64_t tokens) { return plan_of(tokens > 0 ? Sizes{tokens} : Sizes{}); };
  const StepPlan mixed = plan_of({1, 1, 1, 1, 1, 1, 1, 1, 592});
  constexpr Reason kSplit = Reason::threshold, kShort = Reason::below_prefill_threshold;
  return {
      {1, {p(8192), p(8192), p(8192), p(8192)}, kSplit, Queries(4, {4096, 4096})},
      {2,
       {p(8192), p(8192), p(8192), p(0)},
       kSplit,
       {{4096, 4096}, {4096, 4096}, {4096, 4096}, {0, 0}}},
      {3,
       {p(8192), decodes(16), decodes(16), decodes(16)},
       kSplit,
       {{4096, 4096}, {8, 8}, {8, 8}, {8, 8}}},
      {4, {p(1000), p(513)}, kSplit, {{500, 500}, {256, 257}}},
      {5, {p(1000), p(512)}, kSplit, {{500, 500}, {256, 256}}},
      {6, {p(1100), p(530)}, kSplit, {{550, 550}, {265, 265}}},
      {7, {p(1000), p(400)}, kSplit, {{500, 500}, {200, 200}}},
      {8, {p(511), p(511)}, kShort, {}},
      {9, {p(512), p(0)}, kSplit, {{256, 256}, {0, 0}}},
      {10, {decodes(64), decodes(40)}, kSplit, {{32, 32}, {20, 20}}},
      {11, {decodes(64), decodes(32)}, kSplit, {{32, 32}, {16, 16}}},
      {12, {decodes(31), decodes(31)}, Reason::below_decode_threshold, {}},
      {13, {decodes(32), p(0)}, kSplit, {{16, 16}, {0, 0}}},
      {14, {decodes(63), decodes(97)}, kSplit, {{31, 32}, {48, 49}}},
      {15, {decodes(64), mixed}, kSplit, {{32, 32}, {300, 300}}},
      {16, {decodes(33), p(100)}, kShort, {}},
      {17, {p(1), p(8192)}, kSplit, {{0, 1}, {4096, 4096}}},
      {18, {decodes(16, 4), decodes(5, 4)}, kSplit, {{32, 32}, {8, 12}}},
      {19, {p(256), p(100)}, kSplit, {{128, 128}, {50, 50}}, 256},
      {20, {p(0), p(0)}, Reason::idle, {}},
  };
}

TEST(Cut, StepsComeOutAsInTheWorkedTable) {
  for (const Step& step : worked_table()) {
    SCOPED_TRACE("row " + std::to_string(step.row));
    std::vector<StepRecord> records;
    for (const StepPlan& plan : step.ranks) {
      records.push_back({.tokens = plan.tokens(), .uniform_query = plan.uniform_query});
    }
    History history;
    const Policy policy{.kind = PolicyKind::threshold,
                        .prefill_threshold = step.prefill_threshold,
                        .low_latency_capacity = 128};
    const Decision decision = decide(records, policy, history);
    EXPECT_EQ(name(decision.reason), name(step.reason));
    EXPECT_EQ(decision.ubatches, step.reason == Reason::idle ? 0 : step.want.empty() ? 1 : 2);
    if (step.row == 15) {
      EXPECT_EQ(decision.mode, Mode::high_throughput);
    }
    for (size_t rank = 0; rank < step.want.size(); ++rank) {
      EXPECT_EQ(sizes(cut(step.ranks[rank], decision.ubatches, kToken)), step.want[rank])
          << "rank " << rank;
    }
  }
}

// What a ubatch's metadata is made of: KV tokens before each part, and its KV length.
struct Chunk {
  int64_t computed, length;
  bool operator==(const Chunk&) const = default;
};
void PrintTo(const Chunk& chunk, std::ostream* out) {
  *out << chunk.computed << "+" << chunk.length;
}
std::vector<std::vector<Chunk>> chunks_of(const StepPlan& plan,
                                          const std::vector<TokenRange>& ranges) {
  std::vector<std::vector<Chunk>> all;
  for (const TokenRange& range : ranges) {
    all.emplace_back();
    for (const Part& part : parts_of(plan, range)) {
      all.back().push_back(
          {plan.rows[static_cast<size_t>(part.row)].computed + part.first, part.count});
    }
  }
  return all;
}
using Chunks = std::vector<std::vector<Chunk>>;

TEST(Fault, SP05_AContinuationStartsWhereTheEarlierPartEnds) {
  StepPlan plan = plan_of({8});
  plan.rows[0].computed = 24;
  EXPECT_EQ(chunks_of(plan, {{0, 4}, {4, 8}}), (Chunks{{{24, 4}}, {{28, 4}}}));
  plan = plan_of({8, 8});
  plan.rows[0].computed = 24;
  plan.rows[1].computed = 32;
  EXPECT_EQ(chunks_of(plan, {{0, 12}, {12, 16}}), (Chunks{{{24, 8}, {32, 4}}, {{36, 4}}}));
  plan = plan_of({5, 3});
  plan.rows[1].computed = 10;
  EXPECT_EQ(chunks_of(plan, {{0, 4}, {4, 8}}), (Chunks{{{0, 4}}, {{4, 1}, {10, 3}}}));
  plan = plan_of({9});
  EXPECT_EQ(chunks_of(plan, cut(plan, 3, kToken).ranges), (Chunks{{{0, 3}}, {{3, 3}}, {{6, 3}}}));
  plan = plan_of({160});
  EXPECT_EQ(chunks_of(plan, cut(plan, 2, kToken).ranges), (Chunks{{{0, 80}}, {{80, 80}}}));
}

TEST(Cut, WriterBeforeReaderCostsNothing) {
  StepPlan plan = plan_of({672, 4});
  reads(plan, 1, 0, 672);
  const Cut result = cut(plan, 2, kToken);
  EXPECT_EQ(sizes(result), (Sizes{338, 338}));
  EXPECT_EQ(result.cause, CutCause::none);
}

TEST(Cut, ReaderBeforeWriterRunsOneSided) {
  StepPlan plan = plan_of({4, 672});
  reads(plan, 0, 1, 672);
  for (const CutPolicy& policy : {kToken, kRequest, kAuto}) {
    const Cut result = cut(plan, 2, policy);
    EXPECT_EQ(sizes(result), (Sizes{676, 0}));
    EXPECT_EQ(result.cause, CutCause::kv_order);
    EXPECT_EQ(sizes(cut(plan, 4, policy)), (Sizes{676, 0, 0, 0}));
  }
}

TEST(Cut, TheCutMovesToTheNearestLegalOne) {
  StepPlan plan = plan_of({4, 672});
  reads(plan, 0, 1, 512);  // only the first 512 tokens are needed: cuts 1..515 are forbidden
  EXPECT_EQ(sizes(cut(plan, 2, kToken)), (Sizes{516, 160}));
  EXPECT_EQ(cut(plan, 2, kToken).cause, CutCause::none);
  plan = plan_of({300, 4, 372});
  reads(plan, 1, 2, 100);  // 301..403
  EXPECT_EQ(sizes(cut(plan, 2, kToken)), (Sizes{300, 376}));
  EXPECT_EQ(sizes(cut(plan, 2, kRequest)), (Sizes{300, 376}));
  reads(plan, 1, 2, 30);  // 301..333: the midpoint 338 is legal
  EXPECT_EQ(sizes(cut(plan, 2, kToken)), (Sizes{338, 338}));
}

TEST(Cut, ChainsOfReadersStayInOrder) {
  StepPlan plan = plan_of({10, 10, 10, 10});
  reads(plan, 0, 1, 10);  // 0 reads 1, which reads 2: cuts 1..29 are forbidden
  reads(plan, 1, 2, 10);
  EXPECT_EQ(sizes(cut(plan, 2, kToken)), (Sizes{30, 10}));
  reads(plan, 2, 3, 10);
  EXPECT_EQ(sizes(cut(plan, 2, kToken)), (Sizes{40, 0}));
  plan = plan_of({10, 10, 10, 10});
  for (size_t row = 1; row < 4; ++row) reads(plan, row, static_cast<int32_t>(row) - 1, 10);
  EXPECT_EQ(sizes(cut(plan, 4, kToken)), (Sizes{10, 10, 10, 10}));
}

TEST(Cut, PrefixReadersDoNotDivideVerifyGroups) {
  StepPlan plan = decodes(6, 4);
  reads(plan, 2, 3, 4);  // the boundary 12 is forbidden, 8 and 16 are left: the later one
  EXPECT_EQ(sizes(cut(plan, 2, kAuto)), (Sizes{16, 8}));
  reads(plan, 1, 4, 4);
  EXPECT_EQ(sizes(cut(plan, 2, kAuto)), (Sizes{20, 4}));
  reads(plan, 0, 5, 4);
  EXPECT_EQ(sizes(cut(plan, 2, kAuto)), (Sizes{24, 0}));
  EXPECT_EQ(cut(plan, 2, kAuto).cause, CutCause::kv_order);
}

}  // namespace
}  // namespace hocket::dbo
