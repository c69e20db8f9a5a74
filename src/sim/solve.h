// When everything in a recorded graph ran.
#pragma once
#include "base/error.h"
#include "sim/flows.h"
#include "sim/graph.h"
#include "telemetry/trace.h"

namespace hocket::sim {

enum class Partition : uint8_t {
  dynamic,  ///< compute has the SMs that no exchange of its rank holds now
  fixed,    ///< compute never has the SMs of `comm_sms`
  none      ///< compute has all SMs, but for Price::max_sms
};

/// Speeds of every rank's machine that shape the schedule. Bytes per ns are GB/s, one direction.
struct Machine {
  LinkLimits link{};
  double latency_ns = 0;    ///< of an exchange, after its last byte
  int sms = 0;              ///< streaming multiprocessors; 0: nothing slows anything
  int memory_sms = 0;       ///< so many saturate memory
  double store_per_sm = 0;  ///< bytes per ns that one SM of an exchange stores; 0: no limit
  int comm_sms = 0;         ///< what Partition::fixed withholds
  Partition partition = Partition::dynamic;
};

/// ns of a launch that has `sms` SMs all the time.
double duration(const Price& price, int sms, const Machine& machine);

struct Solution {
  std::vector<Nanos> begin{}, end{};  ///< of each node
  Nanos length{0};                    ///< of the last
};
/// Event-driven, in whole ns: an end between two of them counts as the later, so nothing is early.
/// Among what runs it finds the earliest end at current rates, advances, starts what became free
/// and shares SMs and links anew. Fails (internal) as match() does, and where nothing can run with
/// the names of the nodes that wait for each other.
Expected<Solution> solve(const Graph& graph, const Machine& machine);

/// Everything that took time, and every exchange, as traces of all devices name it; in node order.
std::vector<telemetry::TraceSpan> spans(const Graph& graph, const Solution& solution);
/// One rank's, for tests.
device::sim::Timeline timeline(const Graph& graph, const Solution& solution, int rank);

}  // namespace hocket::sim
