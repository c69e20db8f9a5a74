// What a trace says about overlap: how much communication hid behind compute, and where compute stood still. Pure.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telemetry/trace.h"

namespace hocket::telemetry {

/// Times of one interval of one rank, or sums of several, in nanoseconds.
struct OverlapTimes {
  int64_t length_ns = 0;   ///< T
  int64_t compute_ns = 0;  ///< C: the lane "compute" has a span
  int64_t comm_ns = 0;     ///< X: a lane "comm..." or "link..." has a span
  int64_t exposed_ns = 0;  ///< of X, while compute has none
  int64_t serial_ns = 0;   ///< C + X
  int64_t bound_ns = 0;    ///< max(C, X) of each interval: no schedule is faster
  OverlapTimes& operator+=(const OverlapTimes& other);
  /// (T_serial - T) / (T_serial - T_bound): 1 at the bound, 0 when nothing is hidden, below 0 with time lost besides.
  /// No value without communication or without compute. Source: docs/dbo.md, observability.
  std::optional<double> efficiency() const;
};

struct LayerOverlap {
  int64_t comm_ns = 0, exposed_ns = 0;
};

/// One step of one rank. A step is a span "step N" on the lane "host"; a span belongs to the step in which it begins,
/// and spans outside of all steps count nowhere. A rank without such spans is one step, "whole trace".
struct StepOverlap {
  int rank = 0;
  std::string name;
  int64_t begin_ns = 0;
  OverlapTimes times;
  std::map<int, LayerOverlap> layers;  ///< -1: spans whose name has no /L<n>/
};

/// An interval of a step in which the compute lane has no span.
struct Gap {
  int rank = 0;
  std::string step;
  int64_t begin_ns = 0, end_ns = 0;
  std::string after;   ///< the span that ended there; empty: the step began
  std::string before;  ///< the span that began there; empty: the step ended
  std::string beside;  ///< the communication that ran longest meanwhile; empty: none did
  int64_t length() const { return end_ns - begin_ns; }
};

struct OverlapReport {
  std::vector<StepOverlap> steps;  ///< by rank, then begin
  std::map<int, OverlapTimes> ranks;
  OverlapTimes total;
  std::map<int, LayerOverlap> layers;  ///< of all steps and ranks
  std::vector<Gap> gaps;               ///< the longest, longest first
};

/// `spans` in any order. Gaps: at most `max_gaps`.
OverlapReport analyse_overlap(std::span<const TraceSpan> spans, size_t max_gaps);

/// 12 of "u0/L12/dispatch", -1 without a layer.
int layer_of(std::string_view span_name);
bool is_step(const TraceSpan& span);
bool is_communication(const TraceSpan& span);

}  // namespace hocket::telemetry
