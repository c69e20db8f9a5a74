#include "dbo/agree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace hocket::dbo {
namespace {

using testing::HasSubstr;

StepRecord decode(int64_t tokens, int64_t query = 1) {
  return {.tokens = tokens, .uniform_query = tokens > 0 ? query : 0};
}
StepRecord prefill(int64_t tokens) { return {.tokens = tokens}; }
constexpr StepRecord kIdle{};

Decision decided(const std::vector<StepRecord>& ranks,
                 const Policy& policy = {.kind = PolicyKind::threshold}) {
  History history;
  return decide(ranks, policy, history);
}

// The rules of docs/dbo.md as a person would apply them: look at the group, then at one number.
Reason expected(const std::vector<StepRecord>& ranks, int64_t decode_floor, int64_t prefill_floor) {
  int64_t prefilling = 0, decoding = 0, longest = 0;
  for (const StepRecord& rank : ranks) {
    if (rank.tokens == 0) continue;
    (rank.uniform_query == 0 ? prefilling : decoding)++;
    if (rank.tokens > longest) longest = rank.tokens;
  }
  if (prefilling + decoding == 0) return Reason::idle;
  if (prefilling == 0)
    return longest < decode_floor ? Reason::below_decode_threshold : Reason::threshold;
  return longest < prefill_floor ? Reason::below_prefill_threshold : Reason::threshold;
}

void expect_as_the_rules_say(const std::vector<StepRecord>& ranks, const Policy& policy) {
  const Decision got = decided(ranks, policy);
  const Reason want = expected(ranks, policy.decode_threshold, policy.prefill_threshold);
  const int ubatches = want == Reason::idle ? 0 : want == Reason::threshold ? policy.ubatches : 1;
  const bool good = got.reason == want && got.ubatches == ubatches &&
                    (got.overlap == Overlap::on) == (ubatches > 1);
  if (good) return;
  std::string text;
  for (const StepRecord& rank : ranks)
    text += std::to_string(rank.tokens) + (rank.uniform_query > 0 ? "d " : " ");
  ADD_FAILURE() << text << "gives " << name(got.reason) << ", " << got.ubatches
                << " ubatches; want " << name(want);
}

// Every rank as idle, or decode or prefill of each interesting count; all combinations.
void for_all_groups(size_t ranks, std::vector<int64_t> counts, const Policy& policy) {
  std::vector<StepRecord> kinds{kIdle};
  for (int64_t count : counts) {
    kinds.push_back(decode(count));
    kinds.push_back(prefill(count));
  }
  std::vector<size_t> digits(ranks, 0);
  for (size_t place = 0; place < ranks;) {
    std::vector<StepRecord> group;
    for (size_t digit : digits) group.push_back(kinds[digit]);
    expect_as_the_rules_say(group, policy);
    for (place = 0; place < ranks && ++digits[place] == kinds.size(); ++place) digits[place] = 0;
  }
}

TEST(Decide, FollowsTheRulesOnAllSmallGrids) {
  const Policy policy{
      .kind = PolicyKind::threshold, .decode_threshold = 32, .prefill_threshold = 512};
  for_all_groups(2, {1, 15, 16, 17, 31, 32, 33, 255, 256, 257, 511, 512, 513}, policy);
  for_all_groups(4, {1, 31, 32, 33, 511, 512, 513}, policy);
  for_all_groups(3, {1, 2, 3, 4, 5},
                 {.kind = PolicyKind::threshold, .decode_threshold = 4, .prefill_threshold = 2});
  for_all_groups(2, {1, 2},
                 {.kind = PolicyKind::threshold, .decode_threshold = 0, .prefill_threshold = 0});
}

TEST(Decide, AutoIsThresholdWithoutACostTable) {
  for (int64_t tokens : {0, 1, 31, 32, 511, 512}) {
    for (const StepRecord& rank : {decode(tokens), prefill(tokens)}) {
      EXPECT_EQ(decided({rank, kIdle}, {.kind = PolicyKind::automatic}), decided({rank, kIdle}));
    }
  }
}

TEST(Decide, PolicyWordsDecideBeforeThresholds) {
  const auto reason = [](PolicyKind kind, int64_t tokens) {
    return decided({prefill(tokens)}, {.kind = kind}).reason;
  };
  EXPECT_EQ(reason(PolicyKind::never, 9000), Reason::policy_never);
  EXPECT_EQ(reason(PolicyKind::always, 1), Reason::policy_always);
  EXPECT_EQ(decided({prefill(1)}, {.kind = PolicyKind::always}).ubatches, 2);
  EXPECT_EQ(decided({kIdle, kIdle}, {.kind = PolicyKind::always}).ubatches, 0);
  EXPECT_EQ(decided({prefill(9000)}, {.enabled = false, .kind = PolicyKind::always}).reason,
            Reason::disabled);
  EXPECT_EQ(decided({prefill(9000)}, {.kind = PolicyKind::always, .ubatches = 1}).reason,
            Reason::disabled);
  EXPECT_EQ(decided({prefill(9000)}, {.kind = PolicyKind::always, .ubatches = 4}).ubatches, 4);
}

TEST(Decide, RankZerosWordOverridesThePolicy) {
  for (PolicyKind kind :
       {PolicyKind::automatic, PolicyKind::threshold, PolicyKind::always, PolicyKind::never}) {
    std::vector<StepRecord> ranks{prefill(600), prefill(600)};
    ranks[0].policy = policy_word(kind);
    for (PolicyKind configured : {PolicyKind::threshold, PolicyKind::never}) {
      EXPECT_EQ(decided(ranks, {.kind = configured}),
                decided({prefill(600), prefill(600)}, {.kind = kind}))
          << name(kind);
    }
    std::swap(ranks[0].policy, ranks[1].policy);
    EXPECT_EQ(decided(ranks).reason, Reason::threshold) << "only rank 0's word counts";
  }
  StepRecord bad = prefill(1);
  bad.policy = 5;
  EXPECT_THROW(decided({bad}), InvariantError);
  bad.policy = -1;
  EXPECT_THROW(decided({bad}), InvariantError);
}

TEST(Decide, AFailedRankMakesTheStepWhole) {
  for (size_t failed = 0; failed < 3; ++failed) {
    std::vector<StepRecord> ranks(3, prefill(9000));
    ranks[failed].status = static_cast<int64_t>(Code::peer_lost);
    const Decision decision = decided(ranks, {.kind = PolicyKind::always});
    EXPECT_EQ(decision.reason, Reason::recovery);
    EXPECT_EQ(decision.ubatches, 1);
    EXPECT_EQ(decision.overlap, Overlap::off);
  }
  StepRecord idle_and_failed;
  idle_and_failed.status = static_cast<int64_t>(Code::timeout);
  EXPECT_EQ(decided({idle_and_failed, kIdle}).ubatches, 0);
  EXPECT_EQ(decided({idle_and_failed, prefill(600)}).reason, Reason::recovery);
}

TEST(Decide, LowLatencyIsForDecodesThatFit) {
  const Policy policy{.low_latency_capacity = 64};
  EXPECT_EQ(decided({decode(64), kIdle}, policy).mode, Mode::low_latency);
  EXPECT_EQ(decided({decode(64, 4), decode(3, 1)}, policy).mode, Mode::low_latency);
  EXPECT_EQ(decided({decode(8), decode(65)}, policy).mode, Mode::high_throughput);
  EXPECT_EQ(decided({decode(8), prefill(8)}, policy).mode, Mode::high_throughput);
  EXPECT_EQ(decided({decode(8)}, {}).mode, Mode::high_throughput)
      << "a transport without that mode";
  EXPECT_EQ(decided({decode(8), kIdle}, policy).phase, Phase::decode);
  EXPECT_EQ(decided({decode(8), prefill(8)}, policy).phase, Phase::prefill);
}

TEST(Decide, DifferentStepsOrEpochsAreAnError) {
  std::vector<StepRecord> ranks(4, prefill(8));
  for (int64_t StepRecord::*field : {&StepRecord::step, &StepRecord::epoch}) {
    for (auto& rank : ranks) rank.step = 18231, rank.epoch = 2;
    ranks[2].*field += 1;
    try {
      decided(ranks);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::epoch);
      EXPECT_THAT(error.what(), HasSubstr("ranks 0 and 2"));
      EXPECT_THAT(error.what(), HasSubstr("step 18231"));
    }
  }
  EXPECT_THROW(decided({}), InvariantError);
}

TEST(Decide, HistoryDoesNotOutliveItsEpoch) {
  History history;
  std::vector<StepRecord> ranks(2, prefill(600));
  for (auto& rank : ranks) rank.epoch = 3;
  decide(ranks, {}, history);
  EXPECT_EQ(history.epoch, 3);
}

TEST(Decide, NamesEveryReason) {
  for (int value = 0; value <= static_cast<int>(Reason::idle); ++value) {
    EXPECT_NE(name(static_cast<Reason>(value)), "unknown");
  }
  EXPECT_EQ(name(Reason::below_prefill_threshold), "below_prefill_threshold");
  EXPECT_EQ(name(PolicyKind::automatic), "auto");
}

// One request with 100 new tokens stays whole, 8 decodes split, 4 decodes split: each batch kind
// has its threshold.
TEST(Fault, SP01_EachBatchKindHasItsOwnThreshold) {
  const Policy policy{
      .kind = PolicyKind::threshold, .decode_threshold = 4, .prefill_threshold = 1000};
  EXPECT_EQ(decided({prefill(100)}, policy).reason, Reason::below_prefill_threshold);
  EXPECT_EQ(decided({decode(8)}, policy).ubatches, 2);
  EXPECT_EQ(decided({decode(4)}, policy).ubatches, 2);
  EXPECT_EQ(decided({decode(3)}, policy).reason, Reason::below_decode_threshold);
  for (int64_t tokens = 1; tokens <= 2002; ++tokens) {
    EXPECT_EQ(decided({prefill(tokens)}, policy).ubatches, tokens >= 1000 ? 2 : 1) << tokens;
    EXPECT_EQ(decided({decode(tokens)}, policy).ubatches, tokens >= 4 ? 2 : 1) << tokens;
  }
}

// A rank with exactly half, or one more or less, of the largest rank's tokens never vetoes.
TEST(Fault, SP03_HalfOfTheLargestRankDoesNotVeto) {
  for (int64_t small : {63, 64, 65})
    EXPECT_EQ(decided({decode(small), decode(128)}).reason, Reason::threshold);
  for (int64_t small : {549, 550, 551})
    EXPECT_EQ(decided({prefill(small), prefill(1100)}).reason, Reason::threshold);
  for (int64_t small : {31, 32, 33})
    EXPECT_EQ(decided({decode(small), decode(64)}).reason, Reason::threshold);
}

// R = 3 with 1, 0 and 40 tokens: the decision follows from the records alone, whoever asks.
TEST(Fault, AG07_EveryRankComputesTheSameDecision) {
  const std::vector<StepRecord> ranks{decode(1), kIdle, decode(40)};
  std::vector<Decision> decisions;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    History history{.epoch = static_cast<int64_t>(rank)};  // whatever a rank went through before
    decisions.push_back(decide(ranks, {}, history));
    EXPECT_EQ(decisions.back(), decisions.front());
  }
  EXPECT_EQ(decisions.front().ubatches, 2);
  EXPECT_EQ(decisions.front().max_tokens, 40);
}

}  // namespace
}  // namespace hocket::dbo
