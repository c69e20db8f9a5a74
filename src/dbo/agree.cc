#include "dbo/agree.h"

#include <algorithm>

#include <fmt/format.h>

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

/// Why the step is split or whole; the one place where a count meets a threshold.
Reason reason_of(std::span<const StepRecord> ranks, const Policy& policy, Phase phase, int64_t max_tokens) {
  if (!policy.enabled || policy.ubatches < 2) return Reason::disabled;
  if (any_failed(ranks)) return Reason::recovery;
  const PolicyKind kind = policy_of(ranks, policy);
  if (kind == PolicyKind::never) return Reason::policy_never;
  if (kind == PolicyKind::always) return Reason::policy_always;
  if (phase == Phase::decode) {
    return max_tokens >= policy.decode_threshold ? Reason::threshold : Reason::below_decode_threshold;
  }
  return max_tokens >= policy.prefill_threshold ? Reason::threshold : Reason::below_prefill_threshold;
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
  history.epoch = ranks[0].epoch;
  Decision decision;
  for (const StepRecord& rank : ranks) decision.max_tokens = std::max(decision.max_tokens, rank.tokens);
  if (decision.max_tokens == 0) {
    decision.ubatches = 0;
    return decision;
  }
  decision.phase = phase_of(ranks);
  const bool fits = decision.max_tokens <= policy.low_latency_capacity;
  decision.mode = decision.phase == Phase::decode && fits ? Mode::low_latency : Mode::high_throughput;
  decision.reason = reason_of(ranks, policy, decision.phase, decision.max_tokens);
  if (splits(decision.reason)) {
    decision.ubatches = policy.ubatches;
    decision.overlap = Overlap::on;
  }
  return decision;
}

}  // namespace hocket::dbo
