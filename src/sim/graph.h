// What the ranks of a step did, without times: launches in stream order, edges, exchanges. Recorded
// first (record_device.h), joined across ranks (match.h), priced and timed last (solve.h).
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "dbo/agree.h"
#include "device/sim/timeline.h"

namespace hocket::sim {

using device::sim::Nanos;
using NodeId = int32_t;  ///< index into Graph::nodes

enum class Lane : uint8_t { host, compute, comm, link };
inline const char* name(Lane lane) {
  constexpr const char* kNames[] = {"host", "compute", "comm", "link"};
  return kNames[static_cast<size_t>(lane)];
}

enum class Direction : uint8_t { dispatch, combine };
inline const char* name(Direction direction) {
  return direction == Direction::dispatch ? "dispatch" : "combine";
}

/// Names an exchange on all ranks alike.
struct Key {
  int16_t layer = 0, ubatch = 0;
  Direction direction = Direction::dispatch;
  auto operator<=>(const Key&) const = default;
};

/// Time of a launch in ns, all SMs given: fixed + max(flops, memory). Fewer SMs stretch the matrix
/// work in proportion, the memory traffic only below the number that saturates memory.
struct Price {
  double fixed = 0, flops = 0, memory = 0;
  int max_sms = 0;  ///< SMs that it may use at most; 0: all
};

/// One rank's half of an exchange.
struct ExchangeNode {
  Key key{};
  std::vector<double> bytes{};  ///< to each rank; those for itself cross no link
  double speed = 1;             ///< of its flows, as a share of what the link gives
  double fixed_ns = 0;          ///< on its way besides, and where `bytes` is empty instead
  int sms = 0;                  ///< held until it ends here (high throughput); 0: none
};

struct Node {
  int rank = 0;
  Lane lane = Lane::compute;
  device::Label label{};
  Price price{};
  int exchange = -1;            ///< index into Graph::exchanges; -1: a launch or host work
  std::vector<NodeId> after{};  ///< starts when all of these have ended; its lane's order included
};

struct Graph {
  int ranks = 1;
  std::vector<Node> nodes{};  ///< those of a rank in the order in which its host issued them
  std::vector<ExchangeNode> exchanges{};
};

/// "rank 2 u0/L12/dispatch"
std::string describe(const Graph& graph, NodeId id);

}  // namespace hocket::sim
