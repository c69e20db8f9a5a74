// Where splitting a step pays, for decodes and prefills, and with how many SMs and ubatches.
#pragma once
#include "sim/report.h"

namespace hocket::sim {

struct TuneRow {
  int64_t tokens = 0;  ///< of each rank
  double whole_ms = 0;
  std::vector<Variant> split{};  ///< by ubatches, 2 to 4
};
struct TunePhase {
  dbo::Phase phase = dbo::Phase::prefill;
  std::vector<TuneRow> rows{};
  std::optional<int64_t> break_even{}, threshold{};  ///< as Advice
};
struct Tuning {
  TunePhase decode{}, prefill{};
  std::vector<Variant> comm_sms{};  ///< of the largest prefill, high throughput
  int best_comm_sms = 0;            ///< 0: no SMs are shared
  int best_ubatches = 2;            ///< of the largest prefill
};
/// Sweeps powers of two: decodes of 8 to 1024 tokens, prefills of 128 tokens to the largest step.
Tuning tune(const StepModel& model, const Workload& workload);

std::string tuning_text(const StepModel& model, const Tuning& tuning);
/// A file for `hocket serve --config`. Where splitting never pays, the threshold is out of reach.
std::string tuning_yaml(const StepModel& model, const Tuning& tuning);

}  // namespace hocket::sim
