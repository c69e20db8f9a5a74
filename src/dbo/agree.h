// How ranks agree on a step's shape: a pure function of exchanged records. Nothing a rank knows alone can veto.
// Source: design of the agreement in vLLM #24845 and the faults around it (#50945, #51984); docs/dbo.md.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/error.h"
#include "dbo/ubatch.h"

namespace hocket::dbo {

/// One rank's contribution to a step. Integers only: no rank may round differently.
struct StepRecord {
  int64_t step = 0, epoch = 0;    ///< must be equal everywhere; the epoch rises after a failed step
  int64_t status = 0;             ///< hocket::Code: how the last finished step ended on this rank
  int64_t tokens = 0;             ///< 0: idle
  int64_t uniform_query = 0;      ///< q if the rank is a uniform decode, else 0
  int64_t attention_pairs = 0;    ///< visible (query, key) pairs
  int64_t policy = 0;             ///< rank 0's word counts: policy_word() of an override, 0 = none
  int64_t previous_us = 0;        ///< measured duration of the previous step, 0 if unknown
  int64_t stopping = 0;           ///< 1: this rank wants to leave; all leave when all say so
};

enum class PolicyKind : uint8_t { automatic, threshold, always, never };
enum class Mode : uint8_t { high_throughput, low_latency };
enum class Phase : uint8_t { prefill, decode };
enum class Reason : uint8_t {
  threshold, predicted_gain, policy_always,                               // split
  below_decode_threshold, below_prefill_threshold, predicted_loss, policy_never, recovery, disabled, idle  // whole
};
std::string_view name(Reason reason);
std::string_view name(PolicyKind kind);
/// An override as it travels in rank 0's record.
constexpr int64_t policy_word(PolicyKind kind) { return 1 + static_cast<int64_t>(kind); }

struct CostTable;

struct Policy {
  bool enabled = true;  ///< DBO is on
  PolicyKind kind = PolicyKind::automatic;
  int ubatches = 2;
  int64_t decode_threshold = 32, prefill_threshold = 512;  ///< inclusive, compared with the busiest rank's tokens
  int64_t low_latency_capacity = 0;  ///< tokens a rank; 0: the transport has no low-latency mode
  std::shared_ptr<const CostTable> costs{};  ///< of `automatic`; one for all ranks. None: it decides as `threshold`
  double min_gain = 0.05;   ///< from which predicted gain on a phase begins to be split
  double keep_gain = 0.01;  ///< below which it stops; at most min_gain
};

/// Derived from past records only, so equal on all ranks; cleared when the epoch changes.
struct History {
  struct Phase {
    bool split = false;                    ///< the last answer
    std::array<double, 2> correction{};    ///< by Overlap: mean of measured / predicted; 0: never seen
  };
  int64_t epoch = 0;
  std::array<Phase, 2> phases{};  ///< by dbo::Phase
  /// The step that the next records' previous_us speaks of; us = 0: none was predicted.
  struct {
    size_t phase = 0, overlap = 0;
    double us = 0;
  } last{};
};

struct Decision {
  int ubatches = 1;  ///< 0: no rank has tokens, no step
  Overlap overlap = Overlap::off;
  Mode mode = Mode::high_throughput;
  Phase phase = Phase::prefill;
  Reason reason = Reason::idle;
  int64_t max_tokens = 0;
  double predicted_us = 0;    ///< of the step as decided; 0: there is no cost table
  double predicted_gain = 0;  ///< whole / split - 1, corrected by what earlier steps took
  bool operator==(const Decision&) const = default;
};

/// Same records, policy and history: same answer on every rank. Nothing but this compares a count with a threshold.
/// Thresholds are floors for `automatic` too; above them it asks the cost table. Learns from previous_us.
/// Throws Error(epoch) naming ranks and values when steps or epochs differ. REQUIRES: at least one record.
Decision decide(std::span<const StepRecord> ranks, const Policy& policy, History& history);

}  // namespace hocket::dbo
