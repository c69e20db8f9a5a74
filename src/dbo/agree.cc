#include "dbo/agree.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "dbo/predict.h"

namespace hocket::dbo {
namespace {

void require_equal(std::span<const StepRecord> ranks) {
  for (size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].step != ranks[0].step || ranks[r].epoch != ranks[0].epoch) {
      throw Error(Code::epoch, fmt::format("ranks 0 and {} are at different steps: step {} epoch {}, step {} epoch {}", r,
                                           ranks[0].step, ranks[0].epoch, ranks[r].step, ranks[r].epoch));
    }
  }
}

Phase phase_of(std::span<const StepRecord> ranks) {
  for (const StepRecord& rank : ranks) {
    if (rank.tokens > 0 && rank.uniform_query == 0) return Phase::prefill;
  }
  return Phase::decode;
}

/// Rank 0's word counts: an override travels in its record, so that it takes effect on all ranks in the same step.
PolicyKind policy_of(std::span<const StepRecord> ranks, const Policy& policy) {
  const int64_t word = ranks[0].policy;
  if (word == 0) return policy.kind;
  if (word < 0 || word > policy_word(PolicyKind::never)) {
    throw InvariantError(fmt::format("rank 0's step record has policy word {}: 0..{} are known", word,
                                     policy_word(PolicyKind::never)));
  }
  return static_cast<PolicyKind>(word - 1);
}

bool any_failed(std::span<const StepRecord> ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const StepRecord& rank) { return rank.status != static_cast<int64_t>(Code::ok); });
}

/// How a phase's predictions are to be corrected; an outcome that was never seen is assumed to err like the other.
double correction_of(const History::Phase& phase, Overlap overlap) {
  const double own = phase.correction[static_cast<size_t>(overlap)], other = phase.correction[1 - static_cast<size_t>(overlap)];
  return own > 0 ? own : other > 0 ? other : 1;
}

/// The step before this one took max over ranks of previous_us: how wrong was its prediction?
void learn(std::span<const StepRecord> ranks, History& history) {
  constexpr double kWeight = 0.1, kLeast = 0.1, kMost = 10;  // a stall of one step must not turn the policy
  const double predicted = std::exchange(history.last.us, 0);
  int64_t measured = 0;
  for (const StepRecord& rank : ranks) measured = std::max(measured, rank.previous_us);
  if (predicted <= 0 || measured <= 0) return;
  double& mean = history.phases[history.last.phase].correction[history.last.overlap];
  const double ratio = std::clamp(static_cast<double>(measured) / predicted, kLeast, kMost);
  mean = mean > 0 ? mean + kWeight * (ratio - mean) : ratio;
}

struct Forecast {
  Prediction raw, corrected;
};

/// Zeros without a cost table, or where no step is ever split.
Forecast forecast_of(std::span<const StepRecord> ranks, const Policy& policy, Phase phase, const History& history) {
  if (policy.costs == nullptr || !policy.enabled || policy.ubatches < 2) return {};
  const Prediction raw = predict(ranks, *policy.costs, phase, policy.ubatches);
  const History::Phase& past = history.phases[static_cast<size_t>(phase)];
  return {raw, {raw.whole_us * correction_of(past, Overlap::off), raw.split_us * correction_of(past, Overlap::on)}};
}

double outcome_us(const Prediction& prediction, Overlap overlap) {
  return overlap == Overlap::on ? prediction.split_us : prediction.whole_us;
}

/// Whether a step above its floor pays when split, if there are costs to tell.
Reason reason_of_prediction(const Policy& policy, double gain, History::Phase& phase) {
  if (policy.costs == nullptr) return Reason::threshold;
  phase.split = gain >= (phase.split ? policy.keep_gain : policy.min_gain);
  return phase.split ? Reason::predicted_gain : Reason::predicted_loss;
}

/// Why the step is split or whole; the one place where a count meets a threshold.
Reason reason_of(std::span<const StepRecord> ranks, const Policy& policy, const Decision& decision, History& history) {
  const Phase phase = decision.phase;
  const int64_t max_tokens = decision.max_tokens;
  if (!policy.enabled || policy.ubatches < 2) return Reason::disabled;
  if (any_failed(ranks)) return Reason::recovery;
  const PolicyKind kind = policy_of(ranks, policy);
  if (kind == PolicyKind::never) return Reason::policy_never;
  if (kind == PolicyKind::always) return Reason::policy_always;
  if (phase == Phase::decode && max_tokens < policy.decode_threshold) return Reason::below_decode_threshold;
  if (phase == Phase::prefill && max_tokens < policy.prefill_threshold) return Reason::below_prefill_threshold;
  if (kind == PolicyKind::threshold) return Reason::threshold;
  return reason_of_prediction(policy, decision.predicted_gain, history.phases[static_cast<size_t>(phase)]);
}

bool splits(Reason reason) {
  return reason == Reason::threshold || reason == Reason::predicted_gain || reason == Reason::policy_always;
}

}  // namespace

std::string_view name(Reason reason) {
  switch (reason) {
    case Reason::threshold: return "threshold";
    case Reason::predicted_gain: return "predicted_gain";
    case Reason::policy_always: return "policy_always";
    case Reason::below_decode_threshold: return "below_decode_threshold";
    case Reason::below_prefill_threshold: return "below_prefill_threshold";
    case Reason::predicted_loss: return "predicted_loss";
    case Reason::policy_never: return "policy_never";
    case Reason::recovery: return "recovery";
    case Reason::disabled: return "disabled";
    case Reason::idle: return "idle";
  }
  return "unknown";
}

std::string_view name(PolicyKind kind) {
  switch (kind) {
    case PolicyKind::automatic: return "auto";
    case PolicyKind::threshold: return "threshold";
    case PolicyKind::always: return "always";
    case PolicyKind::never: return "never";
  }
  return "unknown";
}

Decision decide(std::span<const StepRecord> ranks, const Policy& policy, History& history) {
  if (ranks.empty()) throw InvariantError("a decision without step records");
  require_equal(ranks);
  if (history.epoch != ranks[0].epoch) history = {.epoch = ranks[0].epoch};
  learn(ranks, history);
  Decision decision;
  for (const StepRecord& rank : ranks) decision.max_tokens = std::max(decision.max_tokens, rank.tokens);
  if (decision.max_tokens == 0) {
    decision.ubatches = 0;
    return decision;
  }
  decision.phase = phase_of(ranks);
  const bool fits = decision.max_tokens <= policy.low_latency_capacity;
  decision.mode = decision.phase == Phase::decode && fits ? Mode::low_latency : Mode::high_throughput;
  const Forecast forecast = forecast_of(ranks, policy, decision.phase, history);
  decision.predicted_gain = forecast.corrected.gain();
  decision.reason = reason_of(ranks, policy, decision, history);
  if (splits(decision.reason)) {
    decision.ubatches = policy.ubatches;
    decision.overlap = Overlap::on;
  }
  decision.predicted_us = outcome_us(forecast.corrected, decision.overlap);
  history.last = {static_cast<size_t>(decision.phase), static_cast<size_t>(decision.overlap),
                  outcome_us(forecast.raw, decision.overlap)};
  return decision;
}

}  // namespace hocket::dbo
