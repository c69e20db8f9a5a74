// From the trace of steps without overlap to the costs of their stages: how `hocket bench calibrate` learns a machine.
#pragma once
#include <span>

#include "base/error.h"
#include "dbo/predict.h"
#include "telemetry/trace.h"

namespace hocket::sim {

/// What one step of one rank cost.
struct StepCosts {
  dbo::Phase phase = dbo::Phase::prefill;
  double tokens = 0, mean_tokens = 0;  ///< of this rank; of all ranks
  double pairs = 0;                    ///< visible (query, key) pairs
  int layers = 0;                      ///< with an exchange
  dbo::LayerCost layer{};              ///< medians over layers; `before` without the attention core
  double attention = 0;                ///< median over layers
  double outside = 0;                  ///< of the step, in no layer
};

/// Every step that ran whole and in which all ranks had tokens, times in microseconds. An exchange lasts from the begin
/// of its transfer to the next launch on compute: latency, waiting for peers and what the host adds count as the wire.
std::vector<StepCosts> step_costs(std::span<const telemetry::TraceSpan> spans);

/// Rising curves through the medians of steps with about equal counts (an eighth of an octave). Fails (bad_input) if a phase has
/// fewer than two different token counts or steps differ in their layers.
Expected<dbo::CostTable> fit_costs(std::span<const StepCosts> steps);

}  // namespace hocket::sim
