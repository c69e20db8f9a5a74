#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "sched/toy_model.h"

namespace hocket::sched {
namespace {

using kv::BlockPool;
using kv::Caching;

std::vector<int32_t> counting(int32_t first, int64_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Request request(int64_t id, std::vector<int32_t> prompt, int64_t max_tokens = 4) {
  Request made{.id = id, .sampling = {.max_tokens = max_tokens}, .tokens = std::move(prompt)};
  made.prompt_tokens = static_cast<int64_t>(made.tokens.size());
  return made;
}

/// A row in short: {request, computed, query}.
using Short = std::vector<std::array<int64_t, 3>>;
Short in_short(const dbo::StepPlan& plan) {
  Short rows;
  for (const dbo::PlanRow& row : plan.rows) rows.push_back({row.request, row.computed, row.query});
  return rows;
}

/// A step that succeeds: every row that samples gets `token`.
Short step(Scheduler& scheduler, int32_t token = 1) {
  const dbo::StepPlan& plan = scheduler.plan();
  const Short rows = in_short(plan);
  std::vector<int64_t> sampled;
  for (const dbo::PlanRow& row : plan.rows) {
    if (row.samples) sampled.push_back(row.request);
  }
  scheduler.commit();
  for (const int64_t id : sampled) scheduler.append(id, token);
  return rows;
}

TEST(Scheduler, RunsAPromptInChunksBehindDecodes) {
  BlockPool pool(32, 4, Caching::on);
  Scheduler scheduler({.max_batched_tokens = 8, .max_seqs = 4, .max_model_len = 64}, pool);
  ASSERT_TRUE(scheduler.add(request(7, {1, 2, 3}, 9)));
  EXPECT_EQ(step(scheduler), (Short{{7, 0, 3}}));
  ASSERT_TRUE(scheduler.add(request(8, counting(10, 20))));
  const dbo::StepPlan& plan = scheduler.plan();
  EXPECT_EQ(in_short(plan), (Short{{7, 3, 1}, {8, 0, 7}}));
  EXPECT_TRUE(plan.rows[0].samples);
  EXPECT_FALSE(plan.rows[1].samples);
  EXPECT_EQ(plan.rows[1].blocks.size(), 2U);
  EXPECT_EQ(plan.rows[1].tokens[6], 16);
  EXPECT_EQ(plan.uniform_query, 0);
  scheduler.commit();
  scheduler.append(7, 1);
  EXPECT_EQ(step(scheduler), (Short{{7, 4, 1}, {8, 7, 7}}));
  EXPECT_EQ(step(scheduler), (Short{{7, 5, 1}, {8, 14, 6}}));
  EXPECT_EQ(step(scheduler), (Short{{7, 6, 1}, {8, 20, 1}}));
}

TEST(Scheduler, CallsAStepUniformWhenAllRowsAreDecodes) {
  BlockPool pool(32, 4, Caching::on);
  Scheduler scheduler({.max_batched_tokens = 8, .max_seqs = 4, .max_model_len = 64}, pool);
  EXPECT_EQ(scheduler.plan().uniform_query, 0);  // no rows
  ASSERT_TRUE(scheduler.add(request(0, {1})));   // one token, yet a prompt
  EXPECT_EQ(scheduler.plan().uniform_query, 0);
  scheduler.commit();
  scheduler.append(0, 1);
  EXPECT_EQ(scheduler.plan().uniform_query, 1);
  scheduler.commit();
  scheduler.append(0, 1);
  ASSERT_TRUE(scheduler.add(request(1, {1, 2})));
  EXPECT_EQ(scheduler.plan().uniform_query, 0);
  scheduler.commit();
  scheduler.append(0, 1);
  scheduler.append(1, 1);
  const dbo::StepPlan& both = scheduler.plan();
  EXPECT_EQ(both.uniform_query, 1);
  EXPECT_EQ(both.rows.size(), 2U);
}

TEST(Scheduler, AdmitsInOrderOfArrivalAndLetsNobodyOvertake) {
  BlockPool pool(8, 4, Caching::on);
  Scheduler scheduler({.max_batched_tokens = 100, .max_seqs = 3, .max_model_len = 40}, pool);
  ASSERT_TRUE(scheduler.add(request(9, counting(0, 12))));
  ASSERT_TRUE(scheduler.add(request(3, counting(100, 24))));  // 3 + 6 blocks: more than there are
  ASSERT_TRUE(scheduler.add(request(5, {1})));                // would fit
  EXPECT_EQ(step(scheduler), (Short{{9, 0, 12}}));
  EXPECT_EQ(scheduler.counters().waiting, 2);
  EXPECT_EQ(scheduler.counters().running, 1);
  EXPECT_EQ(scheduler.counters().queued_tokens, 25);
  scheduler.finish(9);
  EXPECT_EQ(step(scheduler), (Short{{3, 0, 24}, {5, 0, 1}}));
  ASSERT_TRUE(scheduler.add(request(6, {2})));
  ASSERT_TRUE(scheduler.add(request(7, {3})));
  EXPECT_EQ(scheduler.finish(3).state, State::finished);
  EXPECT_EQ(step(scheduler).size(), 3U);  // max_seqs
  EXPECT_EQ(scheduler.find(7)->state, State::running);
}

TEST(Scheduler, DoesNotAdmitAPromptForItsFirstChunkOnly) {
  BlockPool pool(8, 4, Caching::off);
  Scheduler scheduler({.max_batched_tokens = 8, .max_seqs = 4, .max_model_len = 40}, pool);
  ASSERT_TRUE(scheduler.add(request(0, counting(0, 8), 8)));
  step(scheduler);
  ASSERT_TRUE(scheduler.add(request(1, counting(50, 24))));
  EXPECT_EQ(step(scheduler), (Short{{0, 8, 1}}));  // 3 + 6 blocks
  scheduler.finish(0);
  EXPECT_EQ(step(scheduler), (Short{{1, 0, 8}}));
}

TEST(Scheduler, PreemptsTheLatestArrivalAndRecomputesWhatItHad) {
  BlockPool pool(4, 4, Caching::on);
  Scheduler scheduler({.max_batched_tokens = 100, .max_seqs = 4, .max_model_len = 40}, pool);
  ASSERT_TRUE(scheduler.add(request(0, counting(0, 7), 8)));
  ASSERT_TRUE(scheduler.add(request(1, counting(50, 7), 8)));
  ASSERT_TRUE(scheduler.add(request(2, {99}, 8)));
  EXPECT_EQ(step(scheduler, 30), (Short{{0, 0, 7}, {1, 0, 7}}));
  EXPECT_EQ(step(scheduler, 31), (Short{{0, 7, 1}, {1, 7, 1}}));
  EXPECT_EQ(step(scheduler, 32), (Short{{0, 8, 1}}));  // 0 takes a block from 1; 2 does not slip in
  const Request& preempted = *scheduler.find(1);
  EXPECT_EQ(preempted.state, State::waiting);
  EXPECT_EQ(preempted.tokens, joined(counting(50, 7), {30, 31}));
  EXPECT_EQ(preempted.computed, 0);
  EXPECT_EQ(preempted.prompt_tokens, 7);
  EXPECT_EQ(preempted.preemptions, 1);
  EXPECT_TRUE(preempted.blocks.empty());
  EXPECT_EQ(scheduler.counters().preemptions, 1);
  EXPECT_EQ(step(scheduler, 33),
            (Short{{0, 9, 1}}));  // 1 needs three blocks, one is free; 2 waits behind it
  scheduler.finish(0);
  // Of its two full blocks the first is cached still: the end of a sequence goes first.
  EXPECT_EQ(step(scheduler, 34), (Short{{1, 4, 5}, {2, 0, 1}}));
  EXPECT_EQ(scheduler.find(1)->tokens, joined(counting(50, 7), {30, 31, 34}));
  EXPECT_EQ(scheduler.find(1)->cached, 0);  // when first admitted
  pool.check();
}

TEST(Scheduler, PreemptsTheOneThatAsksIfItIsTheLatest) {
  BlockPool pool(4, 4, Caching::off);
  Scheduler scheduler({.max_batched_tokens = 100, .max_seqs = 4, .max_model_len = 40}, pool);
  ASSERT_TRUE(scheduler.add(request(0, counting(0, 6), 8)));
  ASSERT_TRUE(scheduler.add(request(1, counting(50, 8), 8)));
  EXPECT_EQ(step(scheduler), (Short{{0, 0, 6}, {1, 0, 8}}));
  EXPECT_EQ(step(scheduler), (Short{{0, 6, 1}}));
  EXPECT_EQ(scheduler.find(1)->preemptions, 1);
}

TEST(Scheduler, LeavesOneTokenToCompute) {
  BlockPool pool(16, 4, Caching::on);
  Scheduler scheduler({.max_batched_tokens = 100, .max_seqs = 4, .max_model_len = 40}, pool);
  ASSERT_TRUE(scheduler.add(request(0, counting(0, 8))));
  step(scheduler);
  ASSERT_TRUE(scheduler.add(request(1, counting(0, 8))));
  ASSERT_TRUE(scheduler.add(request(2, counting(0, 9))));
  EXPECT_EQ(step(scheduler), (Short{{0, 8, 1}, {1, 4, 4}, {2, 8, 1}}));
  EXPECT_EQ(scheduler.find(1)->cached, 4);
  EXPECT_EQ(scheduler.find(2)->cached, 8);
  EXPECT_EQ(pool.stats().queries, 8 + 8 + 9);
  EXPECT_EQ(pool.stats().hits, 12);
}

TEST(Scheduler, FindsWhatDecodesHaveWritten) {
  BlockPool pool(16, 4, Caching::on);
  Scheduler scheduler({.max_batched_tokens = 100, .max_seqs = 4, .max_model_len = 40}, pool);
  ASSERT_TRUE(scheduler.add(request(0, {1, 2, 3}, 9)));
  step(scheduler, 4);
  ASSERT_TRUE(scheduler.add(request(1, {1, 2, 3, 4, 5})));
  const dbo::StepPlan& plan = scheduler.plan();  // the decode fills its block in this very step
  EXPECT_EQ(in_short(plan), (Short{{0, 3, 1}, {1, 4, 1}}));
  EXPECT_EQ(plan.rows[1].writer, 0);
  EXPECT_EQ(plan.rows[1].writer_tokens, 1);
  EXPECT_EQ(plan.uniform_query, 0);
  scheduler.commit();
  scheduler.finish(0);
  scheduler.finish(1);
  ASSERT_TRUE(scheduler.add(request(2, {1, 2, 3, 4, 6})));
  const dbo::PlanRow& row = scheduler.plan().rows[0];
  EXPECT_EQ(row.computed, 4);
  EXPECT_EQ(row.writer, -1);  // it is not of this step
}

TEST(Scheduler, HandsBackTheRequestsOfAFailedStepAndForgetsWhatItWrote) {
  BlockPool pool(16, 4, Caching::on);
  Scheduler scheduler({.max_batched_tokens = 9, .max_seqs = 4, .max_model_len = 40}, pool);
  ASSERT_TRUE(scheduler.add(request(0, counting(0, 8))));
  ASSERT_TRUE(scheduler.add(request(1, counting(0, 9))));   // one token behind what 0 writes
  ASSERT_TRUE(scheduler.add(request(2, counting(0, 10))));  // no budget left: not in the step
  EXPECT_EQ(in_short(scheduler.plan()), (Short{{0, 0, 8}, {1, 8, 1}}));
  const std::vector<Request> failed = scheduler.rollback();
  ASSERT_EQ(failed.size(), 2U);
  EXPECT_EQ(failed[0].id, 0);
  EXPECT_EQ(failed[1].id, 1);
  EXPECT_TRUE(failed[1].blocks.empty());
  EXPECT_EQ(scheduler.find(0), nullptr);
  EXPECT_EQ(pool.stats().used, 0);
  EXPECT_EQ(pool.stats().cached, 0);
  EXPECT_EQ(in_short(scheduler.plan()), (Short{{2, 0, 9}}));
  scheduler.commit();
  EXPECT_TRUE(scheduler.rollback().empty());  // nothing is open
  EXPECT_TRUE(scheduler.has_work());
  pool.check();
}

TEST(Scheduler, AbortReleasesBlocksWhereverTheRequestIs) {
  BlockPool pool(16, 4, Caching::off);
  Scheduler scheduler({.max_batched_tokens = 8, .max_seqs = 1, .max_model_len = 40}, pool);
  ASSERT_TRUE(scheduler.add(request(0, counting(0, 12))));
  ASSERT_TRUE(scheduler.add(request(1, counting(0, 12))));
  step(scheduler);
  EXPECT_EQ(pool.stats().used, 3);
  scheduler.abort(17);
  scheduler.abort(1);
  scheduler.abort(0);  // in the middle of its prompt
  EXPECT_EQ(pool.stats().used, 0);
  EXPECT_FALSE(scheduler.has_work());
  EXPECT_TRUE(scheduler.plan().rows.empty());
}

TEST(Scheduler, RefusesWhatCouldNeverRunToItsEnd) {
  BlockPool pool(4, 4, Caching::on);
  Scheduler scheduler({.max_batched_tokens = 8, .max_seqs = 4, .max_model_len = 20}, pool);
  const auto refused = scheduler.add(request(0, counting(0, 10), 8));  // 17 tokens are computed
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::capacity);
  EXPECT_EQ(scheduler.find(0), nullptr);
  EXPECT_EQ(scheduler.add(request(0, {})).error().code, Code::bad_input);
  EXPECT_EQ(scheduler.add(request(0, counting(0, 20))).error().code, Code::bad_input);
  ASSERT_TRUE(scheduler.add(request(0, counting(0, 10), 7)));
  for (int i = 0; i < 8; ++i) step(scheduler);  // 8 + 2 tokens of the prompt, then 6 decodes
  EXPECT_EQ(scheduler.finish(0).generated(), 7);

  BlockPool larger(5, 4, Caching::on);
  Scheduler capped({.max_batched_tokens = 8, .max_seqs = 4, .max_model_len = 20}, larger);
  EXPECT_TRUE(capped.add(request(1, counting(0, 10), INT64_MAX)));
}

TEST(Scheduler, RefusesCallsOutOfOrder) {
  BlockPool pool(4, 4, Caching::on);
  EXPECT_THROW(Scheduler({.max_batched_tokens = 0}, pool), Error);
  Scheduler scheduler({.max_batched_tokens = 8, .max_seqs = 4, .max_model_len = 20}, pool);
  EXPECT_THROW(scheduler.finish(0), InvariantError);
  EXPECT_THROW(scheduler.append(0, 1), InvariantError);
  ASSERT_TRUE(scheduler.add(request(0, {1, 2})));
  EXPECT_THROW(static_cast<void>(scheduler.add(request(0, {1, 2}))), InvariantError);
  EXPECT_THROW(scheduler.append(0, 1), InvariantError);  // its prompt is not computed
  scheduler.plan();
  EXPECT_THROW(scheduler.plan(), InvariantError);
  EXPECT_THROW(scheduler.append(0, 1), InvariantError);
  EXPECT_THROW(scheduler.finish(0), InvariantError);
  EXPECT_THROW(scheduler.abort(0), InvariantError);
  scheduler.commit();
  EXPECT_THROW(scheduler.plan(), InvariantError);  // neither given a token nor finished
}

/// What a row reads from the same step: {writer, writer_tokens}; -1, 0 for none.
using Reads = std::vector<std::pair<int32_t, int64_t>>;

/// Opens a step, runs it on a toy model and checks that every row read the K/V of its own tokens.
Reads run_step(Scheduler& scheduler, ToyModel& toy) {
  const dbo::StepPlan& plan = scheduler.plan();
  Reads reads;
  toy.begin_step();
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const dbo::PlanRow& row = plan.rows[i];
    const auto result = toy.run(row, static_cast<int32_t>(i), scheduler.find(row.request)->tokens);
    EXPECT_EQ(result.first_wrong, -1) << "row " << i;
    EXPECT_EQ(row.writer, result.writer) << "row " << i;
    EXPECT_EQ(row.writer_tokens, result.writer_tokens) << "row " << i;
    reads.emplace_back(row.writer, row.writer_tokens);
  }
  return reads;
}

TEST(Scheduler, ReadsBehindTheLastOfSeveralWriters) {
  BlockPool pool(6, 2, Caching::on);
  ToyModel toy(6, 2, 100);
  Scheduler scheduler({.max_batched_tokens = 100, .max_seqs = 4, .max_model_len = 20}, pool);
  ASSERT_TRUE(scheduler.add(request(0, {1})));
  ASSERT_TRUE(scheduler.add(request(1, {1})));
  for (const int32_t token :
       {2, 3}) {  // both fill a block with 1, 2; that of request 0 is the one to be found
    run_step(scheduler, toy);
    scheduler.commit();
    for (const int64_t id : {0, 1}) scheduler.append(id, token);
  }
  scheduler.finish(0);
  ASSERT_TRUE(
      scheduler.add(request(2, counting(50, 8))));  // takes all that is free: 1, 2 is evicted
  run_step(scheduler, toy);
  scheduler.commit();
  scheduler.append(1, 4);
  scheduler.finish(2);
  ASSERT_TRUE(scheduler.add(request(3, {1, 2})));
  ASSERT_TRUE(scheduler.add(request(4, {1, 2, 3, 4, 5})));
  // Request 4 finds 1, 2 with request 3 (row 1) and 3, 4 with request 1 (row 0).
  EXPECT_EQ(run_step(scheduler, toy), (Reads{{-1, 0}, {-1, 0}, {1, 2}}));
  EXPECT_EQ(scheduler.find(4)->computed, 4);
}

/// faults.md SE-01: readers of a preamble that another request writes in the same step.
class FaultSe01 : public testing::Test {
 protected:
  const std::vector<int32_t> preamble_ = counting(1000, 672);
  const std::vector<int32_t> short_tail_ = joined(preamble_, counting(1, 4));
  const std::vector<int32_t> long_tail_ = joined(preamble_, counting(50, 36));
  BlockPool pool_{200, 16, Caching::on};
  ToyModel toy_{200, 16, 100};
  Scheduler scheduler_{{.max_batched_tokens = 2048, .max_seqs = 8, .max_model_len = 2048}, pool_};
};

TEST_F(FaultSe01, SE01_ReaderBehindItsWriter) {
  ASSERT_TRUE(scheduler_.add(request(0, preamble_)));
  ASSERT_TRUE(scheduler_.add(request(1, short_tail_)));
  EXPECT_EQ(run_step(scheduler_, toy_), (Reads{{-1, 0}, {0, 672}}));
  scheduler_.commit();
  EXPECT_EQ(pool_.stats().hits, 672);
  EXPECT_EQ(scheduler_.find(0)->computed, 672);
  EXPECT_EQ(scheduler_.find(1)->computed, 676);
  EXPECT_EQ(pool_.stats().used, 43);
}

TEST_F(FaultSe01, SE01_TheFirstToArriveIsTheWriter) {
  ASSERT_TRUE(scheduler_.add(request(1, short_tail_)));
  ASSERT_TRUE(scheduler_.add(request(0, preamble_)));
  // The last of the 42 blocks is not taken: one token of request 0 must be computed.
  EXPECT_EQ(run_step(scheduler_, toy_), (Reads{{-1, 0}, {0, 656}}));
}

TEST_F(FaultSe01, SE01_ChainOfThree) {
  ASSERT_TRUE(scheduler_.add(request(0, preamble_)));
  ASSERT_TRUE(scheduler_.add(request(1, long_tail_)));
  ASSERT_TRUE(scheduler_.add(request(2, joined(long_tail_, {7, 8}))));
  ASSERT_TRUE(scheduler_.add(request(3, short_tail_)));
  // 708 tokens have 44 full blocks: 42 of request 0, 2 of request 1, which it fills with its first
  // 32 new tokens.
  EXPECT_EQ(run_step(scheduler_, toy_), (Reads{{-1, 0}, {0, 672}, {1, 32}, {0, 672}}));
  scheduler_.commit();
  EXPECT_EQ(pool_.stats().hits, 672 + 704 + 672);
}

TEST_F(FaultSe01, SE01_WriterInTheMiddleOfItsPrompt) {
  Scheduler scheduler({.max_batched_tokens = 400, .max_seqs = 8, .max_model_len = 2048}, pool_);
  ASSERT_TRUE(scheduler.add(request(0, preamble_)));
  ASSERT_TRUE(scheduler.add(request(1, short_tail_)));
  EXPECT_EQ(run_step(scheduler, toy_), (Reads{{-1, 0}}));  // 400 of 672
  scheduler.commit();
  // 25 blocks are there, 17 come with the writer's 272 new tokens.
  EXPECT_EQ(run_step(scheduler, toy_), (Reads{{-1, 0}, {0, 272}}));
}

TEST_F(FaultSe01, SE01_NothingOfAFailedStepIsEverHit) {
  ASSERT_TRUE(scheduler_.add(request(0, preamble_)));
  ASSERT_TRUE(scheduler_.add(request(1, short_tail_)));
  run_step(scheduler_, toy_);
  EXPECT_EQ(scheduler_.rollback().size(), 2U);
  ASSERT_TRUE(scheduler_.add(request(2, short_tail_)));
  ASSERT_TRUE(scheduler_.add(request(3, preamble_)));
  const dbo::StepPlan& plan = scheduler_.plan();
  EXPECT_EQ(in_short(plan), (Short{{2, 0, 676}, {3, 656, 16}}));
  EXPECT_EQ(plan.rows[1].writer, 0);
}

}  // namespace
}  // namespace hocket::sched
