// What a rank counts: every step has exactly one outcome and reason. Names: docs/metrics.md.
#pragma once
#include <chrono>

#include "dbo/agree.h"
#include "engine/stepper.h"
#include "kv/block_pool.h"
#include "sched/scheduler.h"
#include "telemetry/metrics.h"

namespace hocket::engine {

class RankMetrics {
 public:
  RankMetrics(telemetry::Metrics& metrics, int rank);
  void step(const dbo::Decision& decision, const StepShape& shape, std::chrono::duration<double> seconds);
  void state(const sched::Counters& scheduler, const kv::PoolStats& pool);
  void failed_step(Code code);
  void waited(std::chrono::duration<double> seconds);  ///< host time in the agreement

 private:
  telemetry::Labels with(const telemetry::Labels& more) const;
  telemetry::Metrics& metrics_;
  std::string rank_;
  telemetry::Gauge &running_, &waiting_, &kv_usage_, &blocks_free_, &blocks_used_, &blocks_cached_;
  telemetry::Counter &preemptions_, &prefix_queries_, &prefix_hits_, &agreement_seconds_;
  telemetry::Histogram& step_tokens_;
  sched::Counters last_scheduler_;
  kv::PoolStats last_pool_;
};

}  // namespace hocket::engine
