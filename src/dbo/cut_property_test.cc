// Cuts against a reference that tries every token, and properties of random steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "dbo/cut_testing.h"

namespace hocket::dbo {
namespace {

// Row and offset within it of every token.
struct Token {
  int32_t row;
  int64_t offset;
};
std::vector<Token> tokens_of(const StepPlan& plan) {
  std::vector<Token> all;
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    for (int64_t i = 0; i < plan.rows[row].query; ++i)
      all.push_back({static_cast<int32_t>(row), i});
  }
  return all;
}

// Walks every pair of tokens: no token may run in an earlier ubatch than one that its row reads.
bool ordered(const StepPlan& plan, const std::vector<TokenRange>& ranges) {
  const std::vector<Token> tokens = tokens_of(plan);
  const auto ubatch_of = [&](size_t token) {
    size_t ubatch = 0;
    while (static_cast<int64_t>(token) >= ranges[ubatch].end) ++ubatch;
    return ubatch;
  };
  for (size_t reader = 0; reader < tokens.size(); ++reader) {
    const PlanRow& row = plan.rows[static_cast<size_t>(tokens[reader].row)];
    for (size_t writer = 0; writer < tokens.size(); ++writer) {
      const bool needed =
          tokens[writer].row == row.writer && tokens[writer].offset < row.writer_tokens;
      if (needed && ubatch_of(writer) > ubatch_of(reader)) return false;
    }
  }
  return true;
}

bool at_boundary(const std::vector<Token>& tokens, int64_t cut) {
  return tokens[static_cast<size_t>(cut)].offset == 0;
}

// The k-th of N cuts, -1 if there is none, by looking at each token. `exact` is where it would be
// without prefix readers.
int64_t slow_cut(const StepPlan& plan, int64_t k, int64_t n, CutKind kind) {
  const std::vector<Token> tokens = tokens_of(plan);
  const auto total = static_cast<int64_t>(tokens.size());
  std::vector<int64_t> legal, boundaries;
  for (int64_t c = 1; c < total; ++c) {
    if (!ordered(plan, {{0, c}, {c, total}})) continue;
    legal.push_back(c);
    if (at_boundary(tokens, c)) boundaries.push_back(c);
  }
  const auto nearest = [](const std::vector<int64_t>& among, auto distance) {
    int64_t best = -1;
    for (int64_t c : among) best = best < 0 || distance(c) <= distance(best) ? c : best;
    return best;
  };
  if (plan.uniform_query > 0) {
    const int64_t wanted = k * static_cast<int64_t>(plan.rows.size()) / n * plan.uniform_query;
    if (wanted == 0) return 0;
    return nearest(boundaries, [&](int64_t c) { return std::abs(c - wanted); });
  }
  const int64_t boundary =
      nearest(boundaries, [&](int64_t c) { return std::abs(n * c - k * total); });
  if (kind == CutKind::request) return boundary;
  if (kind == CutKind::automatic && boundary > 0 &&
      50 * std::abs(n * boundary - k * total) <= n * total)
    return boundary;
  const int64_t wanted = k * total / n;
  return wanted == 0 ? 0 : nearest(legal, [&](int64_t c) { return std::abs(c - wanted); });
}

std::vector<TokenRange> slow_ranges(const StepPlan& plan, int n, CutKind kind) {
  const int64_t total = plan.tokens();
  std::vector<int64_t> cuts{0};
  for (int k = 1; k < n; ++k) cuts.push_back(total == 0 ? 0 : slow_cut(plan, k, n, kind));
  if (std::find(cuts.begin(), cuts.end(), -1) != cuts.end())
    std::fill(cuts.begin() + 1, cuts.end(), total);
  cuts.push_back(total);
  std::vector<TokenRange> ranges;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) ranges.push_back({cuts[i], cuts[i + 1]});
  return ranges;
}

std::string text_of(const StepPlan& plan) {
  std::string text = plan.uniform_query > 0 ? "uniform" : "";
  for (const PlanRow& row : plan.rows) {
    text += " " + std::to_string(row.query);
    if (row.writer >= 0)
      text +=
          "(reads " + std::to_string(row.writer_tokens) + " of " + std::to_string(row.writer) + ")";
  }
  return text;
}

void expect_as_slow(const StepPlan& plan) {
  for (int n = 1; n <= 4; ++n) {
    for (CutKind kind : {CutKind::automatic, CutKind::token, CutKind::request}) {
      const std::vector<TokenRange> got = cut(plan, n, {.kind = kind}).ranges;
      if (got == slow_ranges(plan, n, kind)) continue;
      std::string cuts;
      for (const TokenRange& range : got) cuts += " " + std::to_string(range.end);
      std::string want;
      for (const TokenRange& range : slow_ranges(plan, n, kind))
        want += " " + std::to_string(range.end);
      ADD_FAILURE() << text_of(plan) << ", N = " << n << ", kind " << static_cast<int>(kind)
                    << ": ends" << cuts << ", want" << want;
    }
  }
}

TEST(Cut, EqualsTheSlowReferenceForAllSmallSteps) {
  for (int64_t a = 1; a <= 6; ++a) {
    expect_as_slow(plan_of({a}));
    expect_as_slow(decodes(a));
    expect_as_slow(decodes(a, 3));
    for (int64_t b = 1; b <= 6; ++b) {
      for (int64_t c = 1; c <= 6; ++c) expect_as_slow(plan_of({a, b, c}));
      for (int64_t needed = 1; needed <= b; ++needed) {  // the first row reads the second
        StepPlan plan = plan_of({a, b});
        reads(plan, 0, 1, needed);
        expect_as_slow(plan);
        plan = plan_of({2, a, b, 3});
        reads(plan, 1, 2, needed);
        expect_as_slow(plan);
      }
    }
  }
}

// Any row may read any other that does not lead back to itself; half of the steps are uniform
// decodes.
StepPlan random_step(std::mt19937_64& random, int64_t max_rows, int64_t max_query) {
  const auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  std::vector<int64_t> queries(static_cast<size_t>(below(max_rows + 1)));
  const int64_t uniform = random() % 3 == 0 ? 1 + below(4) : 0;
  for (int64_t& query : queries) query = uniform > 0 ? uniform : 1 + below(max_query);
  StepPlan plan = plan_of(queries);
  plan.uniform_query = queries.empty() ? 0 : uniform;
  for (PlanRow& row : plan.rows) row.computed = below(100);
  std::vector<int32_t> order;  // a reader's writer comes earlier in it
  for (size_t i = 0; i < queries.size(); ++i) order.push_back(static_cast<int32_t>(i));
  std::shuffle(order.begin(), order.end(), random);
  for (size_t i = 1; i < order.size(); ++i) {
    if (random() % 4 != 0) continue;
    const int32_t writer = order[static_cast<size_t>(below(static_cast<int64_t>(i)))];
    reads(plan, static_cast<size_t>(order[i]), writer,
          1 + below(queries[static_cast<size_t>(writer)]));
  }
  return plan;
}

TEST(Cut, EqualsTheSlowReferenceForRandomSteps) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    expect_as_slow(random_step(random, 6, 9));
  }
}

// SP-02, SP-04, SP-13: ranges and parts concatenate to the step, sizes sum to it, and no part is
// empty.
void expect_partition(const StepPlan& plan, const Cut& result, int n) {
  ASSERT_EQ(result.ranges.size(), static_cast<size_t>(n));
  const std::vector<Token> tokens = tokens_of(plan);
  size_t next = 0;
  int64_t end = 0, sum = 0;
  for (const TokenRange& range : result.ranges) {
    EXPECT_EQ(range.begin, end);
    EXPECT_LE(range.begin, range.end);
    end = range.end;
    sum += range.size();
    int64_t held = 0;
    for (const Part& part : parts_of(plan, range)) {
      EXPECT_GE(part.count, 1);
      for (int64_t i = 0; i < part.count; ++i, ++next) {
        ASSERT_LT(next, tokens.size());
        EXPECT_EQ(part.row, tokens[next].row);
        EXPECT_EQ(part.first + i, tokens[next].offset);
      }
      held += part.count;
    }
    EXPECT_EQ(held, range.size());
  }
  EXPECT_EQ(next, tokens.size());
  EXPECT_EQ(sum, plan.tokens());
}

TEST(Fault, SP02_RangesAndPartsConcatenateToTheStep) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const StepPlan plan = random_step(random, 8, 40);
    for (int n = 1; n <= 4; ++n) {
      for (CutKind kind : {CutKind::automatic, CutKind::token, CutKind::request}) {
        const Cut result = cut(plan, n, {.kind = kind});
        expect_partition(plan, result, n);
        EXPECT_TRUE(ordered(plan, result.ranges)) << text_of(plan);
        const bool empty = std::any_of(result.ranges.begin(), result.ranges.end(),
                                       [](const TokenRange& range) { return range.size() == 0; });
        EXPECT_EQ(result.cause == CutCause::none, !empty);
      }
    }
  }
}

TEST(Fault, SP04_SizesSumToOddTotals) {
  for (int64_t total : {1, 3, 33, 35, 1001, 8191}) {
    for (int n = 1; n <= 4; ++n) {
      int64_t sum = 0;
      for (int64_t size : sizes(cut(plan_of({total}), n, {}))) sum += size;
      EXPECT_EQ(sum, total);
    }
  }
  EXPECT_EQ(sizes(cut(plan_of({33}), 2, {})), (std::vector<int64_t>{16, 17}));
}

TEST(Fault, SP13_NoPartIsEmpty) {
  for (int64_t a = 1; a <= 4; ++a) {
    for (int64_t b = 1; b <= 4; ++b) {
      for (int64_t c = 1; c <= 4; ++c) {
        const StepPlan plan = plan_of({a, b, c});
        for (int64_t begin = 0; begin <= plan.tokens(); ++begin) {
          for (int64_t end = begin; end <= plan.tokens(); ++end) {
            int64_t held = 0;
            for (const Part& part : parts_of(plan, {begin, end})) {
              EXPECT_GE(part.count, 1);
              held += part.count;
            }
            EXPECT_EQ(held, end - begin);
          }
        }
      }
    }
  }
}

TEST(Fault, SP14_NoUbatchHasNearlyAllTokens) {
  EXPECT_EQ(sizes(cut(plan_of({8192, 1}), 2, {})), (std::vector<int64_t>{4096, 4097}));
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    StepPlan plan = random_step(random, 12, 60);
    for (PlanRow& row : plan.rows) row.writer = -1;
    plan.uniform_query = 0;
    const int64_t total = plan.tokens();
    if (total < 8) continue;
    for (CutKind kind : {CutKind::automatic, CutKind::token}) {
      for (int64_t size : sizes(cut(plan, 2, {.kind = kind}))) {
        EXPECT_LE(static_cast<double>(size), 0.65 * static_cast<double>(total))
            << text_of(plan) << ", seed " << seed;
      }
    }
  }
}

}  // namespace
}  // namespace hocket::dbo
