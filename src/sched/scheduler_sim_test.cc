// Long random lives of a scheduler with a tiny pool, checked step by step against a toy model and a
// list of invariants.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "sched/scheduler.h"
#include "sched/toy_model.h"

namespace hocket::sched {
namespace {

constexpr int32_t kVocabulary = 5;

struct Setup {
  int64_t blocks, block_size;
  Limits limits;
  kv::Caching caching;
};

/// What happened in all lives, to see that the walk went everywhere.
struct Seen {
  int64_t steps = 0, finished = 0, aborted = 0, rolled_back = 0, preemptions = 0, hits = 0;
  int64_t same_step_reads = 0, chained_reads = 0, partial_writers = 0, uniform = 0;
};

class Life {
 public:
  Life(const Setup& setup, uint64_t seed, Seen& seen)
      : setup_(setup),
        seen_(seen),
        random_(seed),
        pool_(setup.blocks, setup.block_size, setup.caching),
        toy_(setup.blocks, setup.block_size, kVocabulary),
        scheduler_(setup.limits, pool_) {}

  void run(int64_t steps) {
    for (int64_t i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      for (int64_t burst = below(100) < 20 ? below(8) : 0; burst > 0 && live_.size() < 16; --burst)
        arrive();
      if (below(100) < 3 && !live_.empty()) abort_one();
      step(below(100) < 3);
    }
    // The oldest request gets further with every step and is never set back, so this many steps are
    // enough.
    int64_t bound = 0;
    for (const auto& [id, prompt] : live_)
      bound += std::ssize(prompt) + scheduler_.find(id)->sampling.max_tokens;
    while (scheduler_.has_work() && !testing::Test::HasFailure()) {
      ASSERT_GE(--bound, 0) << "requests do not finish";
      step(false);
    }
    EXPECT_TRUE(live_.empty());
    EXPECT_EQ(pool_.stats().used, 0);
    seen_.preemptions += scheduler_.counters().preemptions;
    seen_.hits += pool_.stats().hits;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  /// Prompts of one of three families: a common beginning of any length, then tokens of their own.
  void arrive() {
    const int64_t longest = setup_.limits.max_model_len - 1;
    std::vector<int32_t> prompt =
        toy_.continuation(std::vector<int32_t>{static_cast<int32_t>(below(3))}, 1 + below(longest));
    for (int64_t own = below(6); own > 0; --own)
      prompt.push_back(static_cast<int32_t>(below(kVocabulary)));
    prompt.resize(std::min(std::ssize(prompt), 1 + below(longest)));
    Request request{.id = next_id_, .tokens = prompt};
    request.prompt_tokens = std::ssize(prompt);
    request.sampling.max_tokens = 1 + below(20);
    const int64_t peak =
        std::min(request.prompt_tokens + request.sampling.max_tokens, setup_.limits.max_model_len) -
        1;
    const bool fits = peak <= setup_.blocks * setup_.block_size;
    ASSERT_EQ(scheduler_.add(std::move(request)).has_value(), fits);
    if (fits) live_[next_id_] = prompt;
    ++next_id_;
  }

  void abort_one() {
    const auto victim = std::next(live_.begin(), below(std::ssize(live_)));
    scheduler_.abort(victim->first);
    live_.erase(victim);
    ++seen_.aborted;
  }

  void step(bool fails) {
    const bool idle = !scheduler_.has_work();
    before_.clear();
    for (const auto& [id, prompt] : live_) before_[id] = *scheduler_.find(id);
    const dbo::StepPlan plan =
        scheduler_.plan();  // a copy: its spans point into the scheduler still
    ASSERT_EQ(plan.rows.empty(), idle);
    ASSERT_NO_THROW(pool_.check());
    check_rows(plan);
    check_order(plan);
    check_blocks(plan);
    toy_.begin_step();
    std::map<int64_t, int32_t> sampled;
    for (size_t i = 0; i < plan.rows.size(); ++i) run_row(plan, static_cast<int32_t>(i), sampled);
    ++seen_.steps;
    fails ? fail_step(plan) : finish_step(sampled);
    ASSERT_NO_THROW(pool_.check());
  }

  void check_rows(const dbo::StepPlan& plan) {
    bool uniform = !plan.rows.empty();
    ASSERT_LE(plan.tokens(), setup_.limits.max_batched_tokens);
    ASSERT_LE(std::ssize(plan.rows), setup_.limits.max_seqs);
    for (const dbo::PlanRow& row : plan.rows) {
      const Request& it = *scheduler_.find(row.request);
      ASSERT_EQ(it.state, State::running);
      ASSERT_GE(row.query, 1);
      ASSERT_EQ(row.computed, it.computed);
      ASSERT_LE(row.computed + row.query, std::ssize(it.tokens));
      ASSERT_EQ(row.samples, row.computed + row.query == std::ssize(it.tokens));
      ASSERT_EQ(std::ssize(row.tokens), row.query);
      ASSERT_TRUE(
          std::equal(row.tokens.begin(), row.tokens.end(), it.tokens.begin() + row.computed));
      ASSERT_EQ(std::ssize(row.blocks),
                (row.computed + row.query + setup_.block_size - 1) / setup_.block_size);
      uniform = uniform && row.samples && row.query == 1 && row.computed >= it.prompt_tokens;
    }
    ASSERT_EQ(plan.uniform_query, uniform ? 1 : 0);
    seen_.uniform += uniform;
  }

  /// Rank of a row in the layout: running decodes, running prefills, newly admitted, which one that
  /// was preempted a moment ago may be if it finds its content in blocks of others; each by age.
  int rank(int64_t id) const {
    const Request& was = before_.at(id);
    const bool preempted = scheduler_.find(id)->preemptions > was.preemptions;
    if (was.state == State::waiting || preempted) return 2;
    return was.computed >= was.prompt_tokens && std::ssize(was.tokens) - was.computed == 1 ? 0 : 1;
  }

  void check_order(const dbo::StepPlan& plan) {
    std::pair<int, int64_t> last{-1, -1};
    std::set<int64_t> planned;
    for (const dbo::PlanRow& row : plan.rows) {
      const std::pair place{rank(row.request), row.request};  // ids rise with arrival
      ASSERT_LT(last, place);
      last = place;
      planned.insert(row.request);
    }
    bool waiting = false;
    for (const auto& [id, prompt] : live_) {  // by age
      const bool waits = scheduler_.find(id)->state == State::waiting;
      ASSERT_FALSE(waiting && !waits) << "request " << id << " overtook an older one";
      waiting = waits;
    }
    if (live_.empty()) return;
    const int64_t oldest = live_.begin()->first;
    ASSERT_TRUE(planned.contains(oldest)) << "the oldest request stands still";
    ASSERT_EQ(scheduler_.find(oldest)->preemptions, before_.at(oldest).preemptions);
  }

  /// Who writes which block, and what may be shared.
  void check_blocks(const dbo::StepPlan& plan) {
    const int64_t size = setup_.block_size;
    std::map<int32_t, int> owners, writers;
    std::map<int64_t, int64_t> end;  // tokens whose K/V exist after the step
    for (const auto& [id, prompt] : live_) {
      end[id] = scheduler_.find(id)->computed;
      for (const int32_t block : scheduler_.find(id)->blocks) ++owners[block];
    }
    ASSERT_EQ(pool_.stats().used, std::ssize(owners));
    for (const dbo::PlanRow& row : plan.rows) {
      end[row.request] = row.computed + row.query;
      for (int64_t i = row.computed / size; i * size < end[row.request]; ++i) {
        ASSERT_EQ(++writers[row.blocks[i]], 1) << "two rows write block " << row.blocks[i];
      }
    }
    for (const auto& [id, prompt] : live_) {
      const std::vector<int32_t>& blocks = scheduler_.find(id)->blocks;
      ASSERT_EQ(std::set<int32_t>(blocks.begin(), blocks.end()).size(), blocks.size());
      for (int64_t i = 0; i < std::ssize(blocks); ++i) {
        ASSERT_TRUE(owners[blocks[i]] == 1 || (i + 1) * size <= end[id])
            << "shared before it is full";
        // Whoever else owns a block of the part that is already there only reads it.
        ASSERT_TRUE(setup_.caching == kv::Caching::on || owners[blocks[i]] == 1);
      }
    }
  }

  void run_row(const dbo::StepPlan& plan, int32_t index, std::map<int64_t, int32_t>& sampled) {
    const dbo::PlanRow& row = plan.rows[index];
    const auto result = toy_.run(row, index, scheduler_.find(row.request)->tokens);
    ASSERT_EQ(result.first_wrong, -1)
        << "request " << row.request << " reads K/V that is not its own";
    ASSERT_EQ(row.writer, result.writer);
    ASSERT_EQ(row.writer_tokens, result.writer_tokens);
    if (result.token) sampled[row.request] = *result.token;
    if (row.writer < 0) return;
    const dbo::PlanRow& writer = plan.rows[row.writer];
    ++seen_.same_step_reads;
    seen_.chained_reads += writer.writer >= 0;
    seen_.partial_writers += writer.computed > 0 && writer.query > 1;
  }

  void fail_step(const dbo::StepPlan& plan) {
    for (const dbo::PlanRow& row : plan.rows) toy_.spoil(row);
    const std::vector<Request> failed = scheduler_.rollback();
    ASSERT_EQ(failed.size(), plan.rows.size());
    for (size_t i = 0; i < failed.size(); ++i) {
      ASSERT_EQ(failed[i].id, plan.rows[i].request);
      ASSERT_EQ(scheduler_.find(failed[i].id), nullptr);
      live_.erase(failed[i].id);
    }
    ++seen_.rolled_back;
  }

  void finish_step(const std::map<int64_t, int32_t>& sampled) {
    scheduler_.commit();
    for (const auto& [id, token] : sampled) {
      scheduler_.append(id, token);
      const Request& it = *scheduler_.find(id);
      const bool full = std::ssize(it.tokens) == setup_.limits.max_model_len;
      if (!full && it.generated() < it.sampling.max_tokens && below(100) >= 2) continue;
      const Request done = scheduler_.finish(id);
      std::vector<int32_t> expected = live_.at(id);
      const auto generated = toy_.continuation(expected, done.generated());
      expected.insert(expected.end(), generated.begin(), generated.end());
      ASSERT_EQ(done.tokens, expected)
          << "preempted " << done.preemptions << ", cached " << done.cached;
      ASSERT_EQ(done.prompt_tokens, std::ssize(live_.at(id)));
      live_.erase(id);
      ++seen_.finished;
    }
  }

  const Setup setup_;
  Seen& seen_;
  std::mt19937_64 random_;
  kv::BlockPool pool_;
  ToyModel toy_;
  Scheduler scheduler_;
  std::map<int64_t, std::vector<int32_t>> live_;  // prompts by id, that is by age
  std::map<int64_t, Request> before_;             // as they were before the plan
  int64_t next_id_ = 0;
};

Seen live(kv::Caching caching, uint64_t first_seed, int lives, int64_t steps) {
  Seen seen;
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(lives); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto between = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    const int64_t block_size = between(1, 5), length = between(8, 60);
    const Setup setup{.blocks = std::max<int64_t>(1, length * between(5, 40) / 10 / block_size),
                      .block_size = block_size,
                      .limits = {.max_batched_tokens = between(1, 60),
                                 .max_seqs = between(1, 8),
                                 .max_model_len = length},
                      .caching = caching};
    Life(setup, seed, seen).run(steps);
    if (testing::Test::HasFailure()) break;
  }
  return seen;
}

TEST(SchedulerLife, KeepsItsPromisesInTinyPools) {
  const Seen seen = live(kv::Caching::on, 1, 60, 400);
  EXPECT_GT(seen.steps, 20'000);
  EXPECT_GT(seen.finished, 2'000);
  EXPECT_GT(seen.aborted, 100);
  EXPECT_GT(seen.rolled_back, 100);
  EXPECT_GT(seen.preemptions, 500);
  EXPECT_GT(seen.hits, 2'000);
  EXPECT_GT(seen.same_step_reads, 200);
  EXPECT_GT(seen.chained_reads, 20);
  EXPECT_GT(seen.partial_writers, 20);
  EXPECT_GT(seen.uniform, 1'000);
}

TEST(SchedulerLife, KeepsItsPromisesWithoutCaching) {
  const Seen seen = live(kv::Caching::off, 1001, 20, 400);
  EXPECT_GT(seen.finished, 500);
  EXPECT_GT(seen.preemptions, 100);
  EXPECT_EQ(seen.hits, 0);
  EXPECT_EQ(seen.same_step_reads, 0);
}

}  // namespace
}  // namespace hocket::sched
