// One rank: a thread that plans, agrees with its peers, steps and commits, for as long as the group lives.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "comm/group.h"
#include "engine/inbox.h"
#include "engine/rank_metrics.h"
#include "engine/sequences.h"
#include "engine/stepper.h"
#include "kv/block_pool.h"
#include "sched/scheduler.h"

namespace hocket::engine {

struct RankOptions {
  int index = 0;       ///< of the engine: data-parallel rank
  int group_rank = 0;  ///< within the group
  StepperOptions stepper;
  sched::Limits limits;
  kv::Caching caching = kv::Caching::on;
  dbo::Policy policy;
  EndRules end_rules;
  std::function<void()> before_step;
};

/// What other threads may ask of a running rank.
struct RankLoad {
  std::atomic<int64_t> open{0};     ///< accepted and not finished
  std::atomic<int64_t> waiting{0};  ///< of them, not yet in a step
};

class Rank {
 public:
  /// Everything passed by reference outlives the rank. `exchanges` by dbo::Mode.
  Rank(RankOptions options, comm::Group& group, const model::Model& model, std::array<comm::AllToAll*, 2> exchanges,
       const text::Tokenizer& tokenizer, telemetry::Metrics& metrics);
  /// The rank's thread. Returns when the group is closed; open requests then end with FinishReason::abort. An exception
  /// means that the rank cannot go on: the group must be closed.
  void run();
  /// After run() threw: every open request ends with an error. Never throws.
  void give_up(const std::string& why) noexcept;
  [[nodiscard]] bool submit(Submission submission);  ///< any thread; false if the rank has ended
  void abort(int64_t request);         ///< any thread
  const RankLoad& load() const { return load_; }

 private:
  void take(Inbox::Content content);
  void end_all(FinishReason reason, const std::string& why);
  void agree_and_step();
  void recover(std::span<const dbo::StepRecord> records);
  void step(const dbo::StepPlan& plan, const dbo::Decision& decision);
  void commit(const dbo::StepPlan& plan, const std::vector<Sampled>& sampled);
  void fail_step(const std::string& why);
  void publish_load();
  dbo::StepRecord record(const dbo::StepPlan& plan) const;

  RankOptions options_;
  comm::Group& group_;
  std::array<comm::AllToAll*, 2> exchanges_;
  kv::BlockPool pool_;
  sched::Scheduler scheduler_;
  Stepper stepper_;
  Sequences sequences_;
  RankMetrics metrics_;
  Inbox inbox_;
  RankLoad load_;
  dbo::History history_;
  device::LaneRecorder* host_ = nullptr;  ///< the rank thread's lane of the trace, if any
  int64_t step_ = 0, epoch_ = 0, arrivals_ = 0, previous_us_ = 0, reported_ended_ = 0;
  Code last_status_ = Code::ok;
};

}  // namespace hocket::engine
