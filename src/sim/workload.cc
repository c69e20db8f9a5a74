#include "sim/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace hocket::sim {
namespace {

constexpr int64_t kBlock = 16;
constexpr int64_t kLowLatencyTokens = 512;  // of a rank, where the back end is chosen step by step
constexpr double kMemoryShare = 0.9;  // vLLM's gpu_memory_utilization

dbo::Policy policy_of(const Workload& workload, int64_t batched) {
  dbo::Policy policy = workload.policy;
  policy.low_latency_capacity = workload.backend == Backend::high_throughput ? 0
                                : workload.backend == Backend::low_latency   ? batched
                                                                             : kLowLatencyTokens;
  return policy;
}

/// One rank's scheduler and blocks.
struct Rank {
  Rank(const sched::Limits& limits, int64_t blocks)
      : pool(blocks, kBlock, kv::Caching::off), scheduler(limits, pool) {}
  kv::BlockPool pool;
  sched::Scheduler scheduler;
  int64_t outstanding = 0;
};

class Runner {
 public:
  Runner(const StepModel& model, const Workload& workload)
      : model_(model), workload_(workload), batched_(largest_step(workload, model.setup().hardware)) {
    const ModelSpec& spec = model.setup().model;
    const Hardware& hw = model.setup().hardware;
    const int64_t length = workload.input_len + workload.output_len;
    const double free = hw.memory_gb * 1e9 * kMemoryShare - spec.weight_bytes(model.setup().ranks);
    const double tokens = free / (spec.kv_bytes() * static_cast<double>(spec.layers));
    blocks_ = static_cast<int64_t>(tokens) / kBlock;
    needed_ = (length + kBlock - 1) / kBlock;
    const int64_t most = workload.max_seqs * needed_ + 1;
    blocks_ = hw.memory_gb > 0 ? std::min(blocks_, most) : most;
    const sched::Limits limits{batched_, workload.max_seqs, length + 1};
    if (blocks_ < needed_) return;
    for (int rank = 0; rank < model.setup().ranks; ++rank)
      ranks_.push_back(std::make_unique<Rank>(limits, blocks_));
  }

  Expected<WorkloadResult> run() {
    if (blocks_ < needed_) {
      return fail(Code::capacity,
                  fmt::format("a request of {} tokens needs {} KV blocks, but {} GB of {} hold {} "
                              "beside the weights. Use more GPUs or shorter prompts.",
                              workload_.input_len + workload_.output_len, needed_,
                              model_.setup().hardware.memory_gb, model_.setup().hardware.name,
                              std::max<int64_t>(0, blocks_)));
    }
    result_.requests.resize(static_cast<size_t>(workload_.prompts));
    sent_.resize(result_.requests.size());
    const int64_t limit = workload_.concurrency > 0 ? workload_.concurrency : workload_.prompts;
    while (in_flight_ < limit && next_ < workload_.prompts) {
      if (auto sent = send(); !sent) return tl::unexpected(sent.error());
    }
    while (in_flight_ > 0) {
      if (auto done = step(); !done) return tl::unexpected(done.error());
    }
    result_.seconds = static_cast<double>(now_.count()) / 1e9;
    return std::move(result_);
  }

 private:
  /// To the rank with the fewest requests, as a data-parallel router does.
  Expected<void> send() {
    const auto least = std::min_element(
        ranks_.begin(), ranks_.end(),
        [](const auto& a, const auto& b) { return a->outstanding < b->outstanding; });
    sched::Request request{.id = next_};
    request.sampling.max_tokens = workload_.output_len;
    request.sampling.ignore_eos = true;
    request.tokens.assign(static_cast<size_t>(workload_.input_len), 1);
    if (auto added = (*least)->scheduler.add(std::move(request)); !added)
      return tl::unexpected(added.error());
    sent_[static_cast<size_t>(next_)] = now_;
    ++(*least)->outstanding;
    ++next_;
    ++in_flight_;
    return {};
  }

  Expected<void> step() {
    std::vector<const dbo::StepPlan*> plans;
    std::vector<dbo::StepRecord> records;
    for (const auto& rank : ranks_) {
      const dbo::StepPlan& plan = rank->scheduler.plan();
      plans.push_back(&plan);
      records.push_back(
          {.step = result_.steps, .tokens = plan.tokens(), .uniform_query = plan.uniform_query});
    }
    dbo::Decision decision = dbo::decide(records, policy_of(workload_, batched_), history_);
    if (workload_.backend == Backend::low_latency) decision.mode = dbo::Mode::low_latency;
    StepShape shape{.mode = decision.mode, .phase = decision.phase, .overlap = decision.overlap};
    for (const dbo::StepPlan* plan : plans)
      shape.ranks.push_back(
          shares_of(*plan, decision.ubatches, workload_.cut, model_.setup().model));
    now_ += length_of(shape);
    ++result_.steps;
    result_.split_steps += decision.ubatches > 1 ? 1 : 0;
    ++result_.reasons[std::string(dbo::name(decision.reason))];
    return commit(plans);
  }

  Nanos length_of(const StepShape& shape) {
    const auto [kind, fresh] = result_.kinds.try_emplace(shape);
    if (fresh) kind->second.length = model_.run(shape).solution.length;
    ++kind->second.steps;
    return kind->second.length;
  }

  Expected<void> commit(const std::vector<const dbo::StepPlan*>& plans) {
    int64_t finished = 0;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      std::vector<int64_t> sampled;
      for (const dbo::PlanRow& row : plans[i]->rows) {
        if (row.samples) sampled.push_back(row.request);
      }
      ranks_[i]->scheduler.commit();
      for (const int64_t id : sampled) finished += sampled_token(*ranks_[i], id) ? 1 : 0;
    }
    for (; finished > 0 && next_ < workload_.prompts; --finished) {
      if (auto sent = send(); !sent) return sent;
    }
    return {};
  }

  /// True if it was the request's last.
  bool sampled_token(Rank& rank, int64_t id) {
    rank.scheduler.append(id, 1);
    const auto index = static_cast<size_t>(id);
    const double ms = static_cast<double>((now_ - sent_[index]).count()) / 1e6;
    const int64_t generated = rank.scheduler.find(id)->generated();
    if (generated == 1) result_.requests[index].first_token_ms = ms;
    if (generated < workload_.output_len) return false;
    result_.requests[index].total_ms = ms;
    (void)rank.scheduler.finish(id);
    --rank.outstanding;
    --in_flight_;
    return true;
  }

  const StepModel& model_;
  const Workload& workload_;
  int64_t batched_, blocks_ = 0, needed_ = 0;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Nanos> sent_;
  dbo::History history_;
  WorkloadResult result_;
  Nanos now_{0};
  int64_t next_ = 0, in_flight_ = 0;
};

}  // namespace

int64_t largest_step(const Workload& workload, const Hardware& hardware) {
  if (workload.max_batched_tokens > 0) return workload.max_batched_tokens;
  return static_cast<int64_t>(hardware.batched_tokens);
}

std::vector<std::string> problems(const Workload& workload, const StepSetup& setup) {
  std::vector<std::string> all = problems(setup);
  if (workload.concurrency > 0 && workload.concurrency < setup.ranks)
    all.push_back(
        fmt::format("--max-concurrency {} leaves ranks of --num-gpus {} idle. Use {} or more.",
                    workload.concurrency, setup.ranks, setup.ranks));
  return all;
}

const StepShape& WorkloadResult::steady() const {
  const auto most = std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    return a.second.steps * a.second.length < b.second.steps * b.second.length;
  });
  if (most == kinds.end()) throw InvariantError("a workload without steps");
  return most->first;
}

double WorkloadResult::tokens_per_second(const Workload& workload) const {
  return static_cast<double>(workload.prompts * (workload.input_len + workload.output_len)) /
         seconds;
}

Expected<WorkloadResult> run_workload(const StepModel& model, const Workload& workload) {
  return Runner(model, workload).run();
}

StepShape plain_step(const StepSetup& setup, const Workload& workload, dbo::Phase phase,
                     int64_t tokens, int ubatches) {
  dbo::StepPlan plan;
  const bool decode = phase == dbo::Phase::decode;
  plan.uniform_query = decode ? 1 : 0;
  for (int64_t left = tokens; left > 0;) {
    dbo::PlanRow row{.request = static_cast<int64_t>(plan.rows.size())};
    row.computed = decode ? workload.input_len : 0;
    row.query = decode ? 1 : std::min(left, workload.input_len);
    row.samples = true;
    left -= row.query;
    plan.rows.push_back(row);
  }
  StepShape shape{.phase = phase};
  shape.overlap = ubatches > 1 ? dbo::Overlap::on : dbo::Overlap::off;
  const bool fits = decode && tokens <= kLowLatencyTokens;
  if (workload.backend == Backend::low_latency || (workload.backend == Backend::automatic && fits))
    shape.mode = dbo::Mode::low_latency;
  const std::vector<Share> shares = shares_of(plan, ubatches, workload.cut, setup.model);
  shape.ranks.assign(static_cast<size_t>(setup.ranks), shares);
  return shape;
}

}  // namespace hocket::sim
