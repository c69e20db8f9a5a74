#include "engine/rank.h"

#include <fmt/format.h>

#include "base/log.h"

namespace hocket::engine {
namespace {

int64_t attention_pairs(const dbo::StepPlan& plan) {
  int64_t pairs = 0;
  for (const dbo::PlanRow& row : plan.rows) pairs += row.computed * row.query + row.query * (row.query + 1) / 2;
  return pairs;
}

}  // namespace

Rank::Rank(RankOptions options, comm::Group& group, const model::Model& model,
           std::array<comm::AllToAll*, 2> exchanges, const text::Tokenizer& tokenizer, telemetry::Metrics& metrics)
    : options_(std::move(options)),
      group_(group),
      exchanges_(exchanges),
      pool_(options_.stepper.kv_blocks, options_.stepper.block_size, options_.caching),
      scheduler_(options_.limits, pool_),
      stepper_(model, exchanges, options_.stepper),
      sequences_(tokenizer, options_.end_rules),
      metrics_(metrics, options_.index) {
  if (device::Recorder* recorder = options_.stepper.recorder) host_ = &recorder->lane(options_.index, "host");
}

bool Rank::submit(Submission submission) {
  load_.open.fetch_add(1, std::memory_order_relaxed);
  load_.waiting.fetch_add(1, std::memory_order_relaxed);
  if (!inbox_.put(std::move(submission))) return false;
  group_.wake();
  return true;
}

void Rank::abort(int64_t request) {
  inbox_.put_abort(request);
  group_.wake();
}

void Rank::run() {
  while (group_.await_work(options_.group_rank)) {
    take(inbox_.take());
    try {
      agree_and_step();
    } catch (const Error& error) {
      if (error.code() == Code::aborted) break;  // the group was closed while this rank waited for its peers
      throw;
    }
    publish_load();
    if (scheduler_.has_work() || !inbox_.empty()) group_.wake();
  }
  end_all(FinishReason::abort, "the engine is shutting down");
}

void Rank::end_all(FinishReason reason, const std::string& why) {
  for (Submission& submission : inbox_.close().submissions) sequences_.add(std::move(submission), arrivals_++);
  sequences_.end_all(reason, why);
  publish_load();
}

void Rank::give_up(const std::string& why) noexcept {
  stepper_.abandon(why);
  end_all(FinishReason::error, why);
}

void Rank::take(Inbox::Content content) {
  for (Submission& submission : content.submissions) {
    const int64_t id = submission.id;
    const Expected<void> added = scheduler_.add(sequences_.add(std::move(submission), arrivals_++));
    if (!added) sequences_.end(id, FinishReason::error, added.error().message);
  }
  for (int64_t id : content.aborts) {
    scheduler_.abort(id);
    sequences_.end(id, FinishReason::abort, "");
  }
}

dbo::StepRecord Rank::record(const dbo::StepPlan& plan) const {
  return {.step = step_,
          .epoch = epoch_,
          .status = static_cast<int64_t>(last_status_),
          .tokens = plan.tokens(),
          .uniform_query = plan.uniform_query,
          .attention_pairs = attention_pairs(plan),
          .previous_us = previous_us_};
}

void Rank::agree_and_step() {
  const dbo::StepPlan& plan = scheduler_.plan();
  const auto asked = device::Clock::now();
  const auto records = group_.exchange(options_.group_rank, record(plan), options_.stepper.timeout);
  metrics_.waited(device::Clock::now() - asked);
  const dbo::Decision decision = dbo::decide(records, options_.policy, history_);
  ++step_;
  recover(records);
  if (decision.ubatches == 0) {
    scheduler_.commit();  // an empty plan
    return;
  }
  step(plan, decision);
}

void Rank::recover(std::span<const dbo::StepRecord> records) {
  bool failed = false;
  for (const dbo::StepRecord& record : records) failed |= record.status != static_cast<int64_t>(Code::ok);
  if (!failed) return;
  stepper_.settle();
  const uint64_t everyone = records.size() == 64 ? ~uint64_t{0} : (uint64_t{1} << records.size()) - 1;
  for (size_t i = 0; i < exchanges_.size(); ++i) {
    if (i > 0 && exchanges_[i] == exchanges_[0]) break;
    const comm::Status status = exchanges_[i]->reform(everyone);
    if (status.code != Code::ok) throw Error(status.code == Code::aborted ? Code::internal : status.code, status.what);
  }
  ++epoch_;
  last_status_ = Code::ok;
}

void Rank::step(const dbo::StepPlan& plan, const dbo::Decision& decision) {
  const auto began = device::Clock::now();
  std::vector<Sampled> sampled;
  try {
    if (options_.before_step) options_.before_step();
    sampled = stepper_.run(plan, decision,
                           [&](const dbo::PlanRow& row) { return sequences_.sample_row(*scheduler_.find(row.request)); });
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    last_status_ = known != nullptr && known->code() != Code::ok ? known->code() : Code::internal;
    fail_step(fmt::format("step {} failed on rank {}: {}", step_ - 1, options_.index, error.what()));
    return;
  }
  const auto ended = device::Clock::now();
  const auto took = ended - began;
  if (host_ != nullptr) {
    host_->add_step({.number = step_ - 1, .tokens = plan.tokens(), .attention_pairs = attention_pairs(plan),
                     .uniform_query = plan.uniform_query, .ubatches = decision.ubatches}, began, ended);
  }
  previous_us_ = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
  metrics_.step(decision, stepper_.shape(), took);
  commit(plan, sampled);
}

void Rank::commit(const dbo::StepPlan& plan, const std::vector<Sampled>& sampled) {
  struct Token {
    int64_t request;
    const Sample* sample;
  };
  std::vector<Token> tokens;  // the plan's rows end with commit()
  for (const Sampled& one : sampled) tokens.push_back({plan.rows[static_cast<size_t>(one.plan_row)].request, &one.sample});
  scheduler_.commit();
  for (const Token& token : tokens) {
    const bool finished = sequences_.accept(*scheduler_.find(token.request), *token.sample);
    scheduler_.append(token.request, token.sample->token);
    if (finished) scheduler_.finish(token.request);
  }
}

void Rank::fail_step(const std::string& why) {
  log::error("engine", "{}", why);
  stepper_.abandon(why);
  metrics_.failed_step(last_status_);
  for (const sched::Request& request : scheduler_.rollback()) sequences_.end(request.id, FinishReason::error, why);
}

void Rank::publish_load() {
  metrics_.state(scheduler_.counters(), pool_.stats());
  load_.open.fetch_sub(sequences_.ended() - reported_ended_, std::memory_order_relaxed);
  reported_ended_ = sequences_.ended();
  load_.waiting.store(scheduler_.counters().waiting, std::memory_order_relaxed);
}

}  // namespace hocket::engine
