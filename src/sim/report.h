// What a simulated benchmark says: throughput, overlap of the step that took most of the time, and
// what would help.
#pragma once
#include <optional>

#include "sim/workload.h"
#include "telemetry/overlap.h"

namespace hocket::sim {

/// Where one step's time went, over all ranks.
struct StepFigures {
  double step_ms = 0;
  double compute_ms = 0, comm_ms = 0, exposed_ms = 0;  ///< mean of a rank
  double bound = 1;                    ///< (C + X) / max(C, X): no schedule gains more
  std::optional<double> efficiency{};  ///< docs/dbo.md 10
  double host_use = 0, compute_use = 0, comm_use = 0, link_use = 0;  ///< share of the step
};
StepFigures figures(const RecordedStep& step);

/// A way to run the same tokens, and its time.
struct Variant {
  int value = 0;  ///< ubatches, or comm SMs
  double ms = 0;
};
struct Advice {
  int64_t tokens = 0;  ///< of a rank in the step
  dbo::Phase phase = dbo::Phase::prefill;
  std::vector<Variant> ubatches{}, comm_sms{};
  /// Smallest steps of a rank, in tokens, in which two ubatches are as fast as one, and 5 % faster.
  /// No value: none up to the largest step.
  std::optional<int64_t> break_even{}, threshold{};
};
constexpr double kMinGain = 0.05;  ///< dbo.md 9.2, min-gain
double step_ms(const StepModel& model, const StepShape& shape);
/// T_whole / T_split - 1 of equal ranks with `tokens` each.
double gain(const StepModel& model, const Workload& workload, dbo::Phase phase, int64_t tokens,
            int ubatches);
/// The smallest number of tokens up to `most` with that gain; searched upwards by eighths of an
/// octave, then halved down. No value: none.
std::optional<int64_t> smallest_with_gain(const StepModel& model, const Workload& workload,
                                          dbo::Phase phase, double wanted, int64_t most);
/// Two ubatches of `tokens` a rank with 2 to 32 SMs for exchanges; empty where SMs are not shared.
std::vector<Variant> sweep_comm_sms(const StepModel& model, const Workload& workload,
                                    dbo::Phase phase, int64_t tokens);
Advice advise(const StepModel& model, const Workload& workload, const StepShape& steady);

/// In the form of `vllm bench serve`.
std::string benchmark_table(const Workload& workload, const WorkloadResult& result);
/// One layer in the middle of the step, as rank 0 and, if ranks differ, as the others see it.
std::string layer_picture(const StepModel& model, const RecordedStep& step);
std::string figures_text(const StepModel& model, const StepShape& shape,
                         const StepFigures& figures);
std::string advice_text(const StepModel& model, const Advice& advice);
std::string setup_text(const StepModel& model, const Workload& workload);
std::string json_report(const StepModel& model, const Workload& workload,
                        const WorkloadResult& result, const StepFigures& figures,
                        const Advice& advice);

}  // namespace hocket::sim
