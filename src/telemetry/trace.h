// Traces: what ran when on which lane of which rank, as Chrome trace-event JSON that Perfetto and chrome://tracing open.
// Every device writes the same names, so that traces of a processor, a GPU and the simulator lie side by side.
#pragma once
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace hocket::telemetry {

/// One interval of one lane. Times in nanoseconds since a point that all ranks of a trace share.
struct TraceSpan {
  int rank = 0;
  std::string lane;  ///< "host", "compute", "comm", "link"
  std::string name;  ///< "u0/L12/dispatch"; on the host lane "step 17"
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<std::pair<std::string, int64_t>> args;
  bool operator==(const TraceSpan&) const = default;
};

/// Process = rank, thread = lane, complete events in microseconds with three decimals, sorted by rank, lane and begin:
/// the same spans give the same bytes. The caller checks the stream's state afterwards.
/// Source: "Trace Event Format", Google, 2016, complete and metadata events.
void write_trace(std::ostream& out, std::span<const TraceSpan> spans);

/// The same into a file that is written beside `path` and then takes its place, so that a full disk leaves what was there.
/// Fails (internal) naming the file.
Expected<void> save_trace(const std::filesystem::path& path, std::span<const TraceSpan> spans);

/// The complete events of a trace file, of this or another program, as save_trace() orders them. A thread without a name
/// gives a lane named by its number. Fails with one line: (missing) no such file, (bad_input) no JSON, no complete event.
Expected<std::vector<TraceSpan>> read_trace(const std::filesystem::path& path);

}  // namespace hocket::telemetry
