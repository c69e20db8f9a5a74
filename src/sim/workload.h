// A benchmark's requests through the engine's scheduler on virtual ranks: closed loop, all prompts
// of one length.
#pragma once
#include <map>

#include "sched/scheduler.h"
#include "sim/step.h"
#include "telemetry/trace.h"

namespace hocket::sim {

enum class Backend : uint8_t { automatic, high_throughput, low_latency };

struct Workload {
  int64_t input_len = 1024, output_len = 128, prompts = 1000;
  int64_t concurrency = 0;         ///< of all ranks together; 0: no limit
  int64_t max_batched_tokens = 0;  ///< of a step and rank; 0: the hardware's
  int64_t max_seqs = 128;          ///< of a rank
  Backend backend = Backend::automatic;
  dbo::Policy policy{};  ///< low_latency_capacity follows from `backend`
  dbo::CutPolicy cut{};
};
/// Tokens that a rank may run in a step.
int64_t largest_step(const Workload& workload, const Hardware& hardware);
/// Everything at once that keeps it from being run, one line each; empty: nothing.
std::vector<std::string> problems(const Workload& workload, const StepSetup& setup);

struct RequestTimes {
  double first_token_ms = 0, total_ms = 0;  ///< since it was sent
};
struct StepKind {
  int64_t steps = 0;
  Nanos length{0};
};
struct WorkloadResult {
  double seconds = 0;
  std::vector<RequestTimes> requests{};
  int64_t steps = 0, split_steps = 0;
  std::map<StepShape, StepKind> kinds{};
  std::map<std::string, int64_t> reasons{};  ///< steps by dbo::Reason
  /// The shape that took most of the time.
  const StepShape& steady() const;
  double tokens_per_second(const Workload& workload) const;
};
/// Runs all prompts. Deterministic. Steps of one shape are solved once.
/// Fails (capacity) where a request does not fit into the memory of the hardware.
Expected<WorkloadResult> run_workload(const StepModel& model, const Workload& workload);

/// A step of equal ranks without a scheduler: `tokens` of each rank, prompts of `input_len` in
/// prefill, one token behind a context of `input_len` each in decode.
StepShape plain_step(const StepSetup& setup, const Workload& workload, dbo::Phase phase,
                     int64_t tokens, int ubatches);

}  // namespace hocket::sim
