#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>

namespace hocket::engine {
namespace {

using sched::SamplingParams;
using testing::ElementsAre;

Sample sample_of(std::vector<float> logits, const SamplingParams& params, std::vector<int32_t> generated = {},
                 std::vector<int32_t> forbidden = {}) {
  const std::vector<int32_t> prompt{0};
  return sample(logits, {.params = &params, .prompt = prompt, .generated = generated, .forbidden = forbidden});
}

TEST(Sampler, GreedyTakesTheLowestOfEqualMaxima) {
  EXPECT_EQ(sample_of({1, 3, 3, 2}, {.temperature = 0}).token, 1);
}

TEST(Sampler, ForbiddenIdsAreNeverTaken) {
  EXPECT_EQ(sample_of({1, 3, 9, 2}, {.temperature = 0}, {}, {2, 1}).token, 3);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    EXPECT_NE(sample_of({1, 3, 9, 2}, {.temperature = 2, .seed = seed}, {}, {2}).token, 2) << seed;
  }
}

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  const Sample s = sample_of({1, 2, 3}, {.temperature = 0, .repetition_penalty = 1.5F, .logprobs = 2}, {2}, {2});
  const double normalizer = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  EXPECT_EQ(s.token, 1);
  EXPECT_NEAR(s.logprob, 2 - normalizer, 1e-6);
  ASSERT_EQ(s.top.size(), 2U);
  EXPECT_EQ(s.top[0].id, 2);
  EXPECT_NEAR(s.top[0].logprob, 3 - normalizer, 1e-6);
}

TEST(Sampler, PenaltiesCountGeneratedTokens) {
  // presence 1 and frequency 0.5 twice: 4 - 1 - 1 = 2 < 3
  const SamplingParams p{.temperature = 0, .presence_penalty = 1, .frequency_penalty = 0.5F};
  EXPECT_EQ(sample_of({0, 4, 3}, p, {1}).token, 2);  // 4 - 1.5 = 2.5
  EXPECT_EQ(sample_of({0, 4, 2.4F}, p, {1}).token, 1);
  EXPECT_EQ(sample_of({0, 4, 2.4F}, p, {1, 1}).token, 2);
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  EXPECT_EQ(sample_of({-9, 4, 3}, {.temperature = 0, .repetition_penalty = 2}, {1}).token, 2);
  EXPECT_EQ(sample_of({-1.5F, -1, -9}, {.temperature = 0, .repetition_penalty = 2}, {1}).token, 1 - 0);
}

// The oracle: probabilities by definition, in double, from the kept set.
std::vector<double> expected_distribution(const std::vector<float>& logits, const SamplingParams& p) {
  std::vector<std::pair<double, size_t>> order;
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    order.emplace_back(-std::exp(static_cast<double>(logits[i]) / p.temperature), i);
  }
  std::sort(order.begin(), order.end());
  const double most = -order[0].first;
  std::vector<double> out(logits.size());
  size_t kept = 0;
  double total = 0;
  std::vector<std::pair<double, size_t>> survivors;
  for (auto [negative, i] : order) {
    if (-negative < p.min_p * most) break;
    if (p.top_k > 0 && static_cast<int>(kept) == p.top_k) break;
    survivors.emplace_back(-negative, i);
    total += -negative;
    ++kept;
  }
  double running = 0;
  for (auto [weight, i] : survivors) {
    out[i] = weight;
    sum += weight;
    running += weight;
    if (running >= p.top_p * total) break;
  }
  for (double& v : out) v /= sum;
  return out;
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits{0.5F, 2.0F, -1.0F, 1.2F, 1.9F, -3.0F};
  for (const SamplingParams& p :
       {SamplingParams{}, SamplingParams{.temperature = 0.7F, .top_p = 0.8F}, SamplingParams{.temperature = 1.5F, .min_p = 0.2F},
        SamplingParams{.temperature = 1.0F, .top_k = 3}, SamplingParams{.top_p = 0.9F, .top_k = 4}}) {
    const std::vector<double> want = expected_distribution(logits, p);
    std::vector<int> seen(logits.size());
    const int draws = 20000;
    for (int i = 0; i < draws; ++i) {
      SamplingParams seeded = p;
      seeded.seed = static_cast<uint64_t>(i);
      ++seen[static_cast<size_t>(sample_of(logits, seeded).token)];
    }
    for (size_t i = 0; i < want.size(); ++i) {
      const double share = static_cast<double>(seen[i]) / draws;
      EXPECT_NEAR(share, want[i], 4 * std::sqrt(0.25 / draws)) << i;  // four standard deviations at most
      if (want[i] == 0) {
        EXPECT_EQ(seen[i], 0) << i;
      }
    }
  }
}

TEST(Sampler, ADrawDependsOnSeedAndPositionAlone) {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  std::vector<float> logits(64);
  for (float& v : logits) v = normal(rng);
  const SamplingParams p{.temperature = 1.3F, .seed = 42};
  const int32_t first = sample_of(logits, p, {1, 2, 3}).token;
  EXPECT_EQ(sample_of(logits, p, {1, 2, 3}).token, first);
  std::set<int32_t> others;
  for (int i = 0; i < 20; ++i) others.insert(sample_of(logits, p, std::vector<int32_t>(static_cast<size_t>(i), 1)).token);
  EXPECT_GT(others.size(), 5U);
}

}  // namespace
}  // namespace hocket::engine
