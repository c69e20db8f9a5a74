#include "engine/rank_metrics.h"

namespace hocket::engine {
namespace {

const std::vector<double> kStepSeconds{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10};
const std::vector<double> kTokens{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

const char* shape_name(const StepShape& shape, int ubatches) {
  if (shape.used == 0) return "idle";
  return shape.used == 1 && ubatches > 1 ? "one_sided" : "both";
}

const char* cause_name(dbo::CutCause cause) {
  switch (cause) {
    case dbo::CutCause::none: return "none";
    case dbo::CutCause::kv_order: return "kv_order";
    case dbo::CutCause::request_cut: return "request_cut";
    case dbo::CutCause::idle: return "idle";
    case dbo::CutCause::shortage: return "short";
  }
  return "none";
}

}  // namespace

RankMetrics::RankMetrics(telemetry::Metrics& metrics, int rank)
    : metrics_(metrics),
      rank_(std::to_string(rank)),
      running_(metrics.gauge("vllm:num_requests_running", "Requests in the running batch.", with({}))),
      waiting_(metrics.gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled.", with({}))),
      kv_usage_(metrics.gauge("vllm:kv_cache_usage_perc", "KV cache usage, 1 is full.", with({}))),
      blocks_free_(metrics.gauge("hocket_kv_blocks", "KV blocks by state.", with({{"state", "free"}}))),
      blocks_used_(metrics.gauge("hocket_kv_blocks", "KV blocks by state.", with({{"state", "used"}}))),
      blocks_cached_(metrics.gauge("hocket_kv_blocks", "KV blocks by state.", with({{"state", "cached"}}))),
      preemptions_(metrics.counter("vllm:num_preemptions_total", "Requests preempted.", with({}))),
      prefix_queries_(metrics.counter("vllm:prefix_cache_queries_total", "Tokens looked up.", with({}))),
      prefix_hits_(metrics.counter("vllm:prefix_cache_hits_total", "Tokens found.", with({}))),
      agreement_seconds_(metrics.counter("hocket_dbo_host_wait_seconds_total", "Host time spent waiting.",
                                         with({{"what", "agreement"}}))),
      step_tokens_(metrics.histogram("vllm:iteration_tokens_total", "Tokens of a step.", kTokens, with({}))) {}

telemetry::Labels RankMetrics::with(const telemetry::Labels& more) const {
  telemetry::Labels labels{{"engine", rank_}};
  labels.insert(more.begin(), more.end());
  return labels;
}

void RankMetrics::step(const dbo::Decision& decision, const StepShape& shape, std::chrono::duration<double> seconds) {
  const bool split = decision.overlap == dbo::Overlap::on;
  const std::string outcome = split ? "split" : "whole";
  metrics_
      .counter("hocket_dbo_steps_total", "Steps by outcome and reason.",
               with({{"outcome", outcome}, {"reason", std::string(name(decision.reason))}}))
      .add(1);
  metrics_.histogram("hocket_engine_step_seconds", "Duration of a step.", kStepSeconds, with({{"outcome", outcome}}))
      .observe(seconds.count());
  if (decision.predicted_us > 0) {
    const char* phase = decision.phase == dbo::Phase::prefill ? "prefill" : "decode";
    metrics_.gauge("hocket_dbo_predicted_gain", "Whole / split - 1 of the last step, as predicted.", with({{"phase", phase}}))
        .set(decision.predicted_gain);
    metrics_.gauge("hocket_dbo_model_error", "Measured / predicted duration of the last step.",
                   with({{"phase", phase}, {"outcome", outcome}}))
        .set(seconds.count() * 1e6 / decision.predicted_us);
  }
  int64_t tokens = 0;
  for (const dbo::TokenRange& range : shape.cut.ranges) tokens += range.size();
  step_tokens_.observe(static_cast<double>(tokens));
  if (!split) return;
  metrics_
      .counter("hocket_dbo_rank_shape_total", "Split steps by this rank's shape and its cause.",
               with({{"shape", shape_name(shape, decision.ubatches)}, {"cause", cause_name(shape.cut.cause)}}))
      .add(1);
  for (size_t i = 0; i < shape.cut.ranges.size(); ++i) {
    metrics_
        .histogram("hocket_dbo_ubatch_tokens", "Tokens of a ubatch in split steps.", kTokens,
                   with({{"ubatch", std::to_string(i)}}))
        .observe(static_cast<double>(shape.cut.ranges[i].size()));
  }
}

void RankMetrics::state(const sched::Counters& scheduler, const kv::PoolStats& pool) {
  running_.set(static_cast<double>(scheduler.running));
  waiting_.set(static_cast<double>(scheduler.waiting));
  kv_usage_.set(pool.total == 0 ? 0 : static_cast<double>(pool.used) / static_cast<double>(pool.total));
  blocks_free_.set(static_cast<double>(pool.free));
  blocks_used_.set(static_cast<double>(pool.used));
  blocks_cached_.set(static_cast<double>(pool.cached));
  preemptions_.add(static_cast<double>(scheduler.preemptions - last_scheduler_.preemptions));
  prefix_queries_.add(static_cast<double>(pool.queries - last_pool_.queries));
  prefix_hits_.add(static_cast<double>(pool.hits - last_pool_.hits));
  last_scheduler_ = scheduler;
  last_pool_ = pool;
}

void RankMetrics::failed_step(Code code) {
  metrics_.counter("hocket_dbo_step_failures_total", "Failed steps.", with({{"code", std::string(hocket::name(code))}})).add(1);
}

void RankMetrics::waited(std::chrono::duration<double> seconds) { agreement_seconds_.add(seconds.count()); }

}  // namespace hocket::engine
