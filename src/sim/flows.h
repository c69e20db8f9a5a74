// How flows between ranks share the links.
#pragma once
#include <span>
#include <vector>

#include "sim/graph.h"

namespace hocket::sim {

/// Bytes of one exchange on their way from one rank to another.
struct Flow {
  NodeId node = 0;  ///< of the sender
  int from = 0, to = 0;
  double left = 0;  ///< bytes
  double rate = 0;  ///< bytes per ns, that is GB/s
};

/// Most that may pass, in bytes per ns.
struct LinkLimits {
  double egress = 1, ingress = 1;  ///< of each rank, within a node
  double nic = 1;                  ///< of each rank and direction, between nodes
  int node_ranks = 0;              ///< ranks of a node; 0: there is one node
  bool between_nodes(int from, int to) const {
    return node_ranks > 0 && from / node_ranks != to / node_ranks;
  }
};

/// Rates that are max-min fair over each rank's egress and ingress and each sender's stores
/// (`store(node)`, bytes per ns, 0: no limit). Flows of one sender's node must stand together.
/// Independent of the order of ranks. Source: Bertsekas and Gallager 1992, "Data Networks", 6.5.2,
/// progressive filling.
void share(std::span<Flow> flows, int ranks, const LinkLimits& limits,
           const std::vector<double>& store);

}  // namespace hocket::sim
