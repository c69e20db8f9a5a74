// The cost model and what policy `auto` makes of it. That layer_us() is the order of run() is in timeline_test.cc.
#include "dbo/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hocket::dbo {
namespace {

TEST(Curve, IsLinearBetweenFlatBeforeAndSteadyBeyondItsPoints) {
  const Curve curve({{10, 100}, {20, 200}, {40, 600}});
  for (const auto& [count, us] : std::vector<std::pair<double, double>>{
           {0, 100}, {10, 100}, {15, 150}, {20, 200}, {30, 400}, {40, 600}, {50, 800}}) {
    EXPECT_DOUBLE_EQ(curve.at(count), us) << count;
  }
  EXPECT_EQ(Curve().at(7), 0);
  EXPECT_EQ(Curve({{5, 3}}).at(1e9), 3);
  EXPECT_EQ(Curve({{1, 100}, {2, 1}}).at(1e9), 0) << "a falling line does not become a negative time";
}

TEST(Curve, RefusesPointsThatDoNotRiseOrAreNoCosts) {
  for (const std::vector<Curve::Point>& bad : std::vector<std::vector<Curve::Point>>{
           {{2, 1}, {2, 1}}, {{2, 1}, {1, 1}}, {{1, -1}}, {{-1, 1}}, {{1, std::nan("")}}, {{INFINITY, 1}}}) {
    EXPECT_THROW(Curve{bad}, Error);
  }
}

Curve line(double fixed, double slope) { return Curve({{0, fixed}, {1000, fixed + 1000 * slope}}); }

/// Weights cost `fixed` however few tokens there are, as on real machines; the wire only what it carries.
CostTable table(double fixed, double compute, double wire) {
  PhaseCosts costs;
  costs.before = costs.experts = line(fixed, compute);
  costs.dispatch = costs.combine = line(0, wire);
  return {.layers = 10, .prefill = costs, .decode = costs};
}

std::vector<StepRecord> prefill(int64_t tokens, int64_t previous_us = 0) {
  return std::vector<StepRecord>(2, StepRecord{.tokens = tokens, .previous_us = previous_us});
}

Policy policy_with(CostTable costs) {
  Policy policy;
  policy.prefill_threshold = 8;
  policy.costs = std::make_shared<const CostTable>(std::move(costs));
  return policy;
}

TEST(Predict, ASplitStepIsNeverBelowTheBoundNorAboveTwiceTheFixedCost) {
  std::mt19937_64 random(24845);
  const auto some = [&](uint64_t most) { return static_cast<double>(random() % most); };
  for (int round = 0; round < 500; ++round) {
    const CostTable costs = table(some(200), some(10), some(10));
    const auto ranks = prefill(2 + static_cast<int64_t>(random() % 5000));
    const Prediction got = predict(ranks, costs, Phase::prefill, 2);
    const auto tokens = static_cast<double>(ranks[0].tokens);
    const double compute = 10 * (costs.prefill.before.at(tokens) + costs.prefill.experts.at(tokens));
    const double wire = 20 * costs.prefill.dispatch.at(tokens), fixed = 20 * costs.prefill.before.at(0);
    EXPECT_NEAR(got.whole_us, compute + wire, 1e-6 * got.whole_us);
    EXPECT_GE(got.split_us, std::max(compute, wire) * (1 - 1e-9));
    EXPECT_LE(got.split_us, (compute + wire + fixed) * (1 + 1e-9));
  }
}

TEST(Predict, TheBusiestRankSetsThePaceAndExpertsGetTheMean) {
  CostTable costs{.layers = 1};
  costs.prefill.before = line(0, 1);
  costs.prefill.experts = line(0, 100);
  costs.prefill.attention = line(0, 0.001);
  const std::vector<StepRecord> ranks{{.tokens = 300, .attention_pairs = 5000}, {.tokens = 100, .attention_pairs = 70'000}};
  EXPECT_DOUBLE_EQ(predict(ranks, costs, Phase::prefill, 2).whole_us, 300 + 100 * 200 + 70);
}

TEST(Auto, SplitsWhereItPaysAndNotWhereWeightsAreReadTwice) {
  const Policy policy = policy_with(table(100, 1, 1));
  History history;
  EXPECT_EQ(decide(prefill(2000), policy, history).reason, Reason::predicted_gain);
  History fresh;
  const Decision small = decide(prefill(16), policy, fresh);
  EXPECT_EQ(small.reason, Reason::predicted_loss);
  EXPECT_EQ(small.ubatches, 1);
  EXPECT_LT(small.predicted_gain, 0);
}

TEST(Auto, WithoutACostTableItIsThreshold) {
  Policy policy = policy_with(table(100, 1, 1));
  policy.costs = nullptr;
  History history;
  const Decision got = decide(prefill(16), policy, history);
  EXPECT_EQ(got.reason, Reason::threshold);
  EXPECT_EQ(got.predicted_us, 0);
}

TEST(Auto, ThresholdsStayFloorsAndPoliciesOverride) {
  Policy policy = policy_with(table(0, 1, 1));
  policy.prefill_threshold = 5000;
  History history;
  EXPECT_EQ(decide(prefill(2000), policy, history).reason, Reason::below_prefill_threshold);
  policy.kind = PolicyKind::always;
  EXPECT_EQ(decide(prefill(2000), policy, history).reason, Reason::policy_always);
  policy.kind = PolicyKind::never;
  EXPECT_EQ(decide(prefill(2000), policy, history).reason, Reason::policy_never);
  policy.kind = PolicyKind::threshold;
  policy.prefill_threshold = 8;
  policy.costs = std::make_shared<const CostTable>(table(1e6, 1, 1));
  EXPECT_EQ(decide(prefill(2000), policy, history).reason, Reason::threshold);
}

TEST(Auto, StaysSplitBetweenKeepingAndBeginning) {
  Policy policy = policy_with(table(0, 1, 1));
  History fresh;
  const double gain = decide(prefill(2000), policy, fresh).predicted_gain;
  policy.min_gain = gain + 0.01;
  policy.keep_gain = gain - 0.01;
  History history;
  EXPECT_EQ(decide(prefill(2000), policy, history).reason, Reason::predicted_loss);
  policy.min_gain = gain;
  EXPECT_EQ(decide(prefill(2000), policy, history).reason, Reason::predicted_gain);
  policy.min_gain = gain + 0.01;
  EXPECT_EQ(decide(prefill(2000), policy, history).reason, Reason::predicted_gain) << "began, so it is kept";
}

// The table promises overlap; the machine has none to give: split steps take twice what was promised.
TEST(Auto, StopsSplittingWhenMeasuredStepsContradictTheTable) {
  const Policy policy = policy_with(table(0, 1, 1));
  History history;
  Decision last = decide(prefill(2000), policy, history);
  const double promised = last.predicted_us;
  int steps = 0;
  for (; last.overlap == Overlap::on && steps < 100; ++steps) {
    last = decide(prefill(2000, static_cast<int64_t>(2 * promised)), policy, history);
    if (steps == 0) {
      EXPECT_EQ(last.overlap, Overlap::on) << "whole steps are assumed to err alike until one was measured";
      history.phases[0].correction[0] = 1;  // as a whole step does that takes what was predicted
    }
  }
  EXPECT_EQ(last.reason, Reason::predicted_loss);
  EXPECT_LT(steps, 5);
}

TEST(Auto, ForgetsWithTheEpochAndIgnoresAStall) {
  const Policy policy = policy_with(table(0, 1, 1));
  History history;
  decide(prefill(2000), policy, history);
  decide(prefill(2000, 1'000'000'000), policy, history);
  EXPECT_EQ(history.phases[0].correction[1], 10);
  auto later = prefill(2000);
  for (StepRecord& record : later) record.epoch = 1;
  decide(later, policy, history);
  EXPECT_EQ(history.phases[0].correction[1], 0);
}

TEST(Auto, EveryRankDecidesAlike) {
  const Policy policy = policy_with(table(50, 1, 0.7));
  History mine, yours;
  std::mt19937_64 random(1);
  for (int step = 0; step < 300; ++step) {
    std::vector<StepRecord> ranks(3);
    for (StepRecord& record : ranks) {
      record = {.step = step, .tokens = static_cast<int64_t>(random() % 3000), .attention_pairs = static_cast<int64_t>(random() % 100'000),
                .previous_us = static_cast<int64_t>(random() % 100'000)};
    }
    EXPECT_EQ(decide(ranks, policy, mine), decide(ranks, policy, yours));
  }
}

}  // namespace
}  // namespace hocket::dbo
