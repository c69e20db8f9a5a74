// A trace as a picture: lanes from top to bottom, time from left to right.
#pragma once
#include <span>
#include <string>

#include "telemetry/trace.h"

namespace hocket::telemetry {

/// The step that shows best how a run goes: of the steps with the most spans, the one of median length. Empty: no steps.
std::string steady_step(std::span<const TraceSpan> spans);

/// The spans of the step `step` ("step 17") of every rank; empty: all spans. An SVG document without references to
/// anything outside it. Colour is the ubatch, solid boxes compute, hatched boxes move data.
std::string trace_svg(std::span<const TraceSpan> spans, std::string_view step);

}  // namespace hocket::telemetry
