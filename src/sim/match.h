// Joins the exchanges of all ranks.
#pragma once
#include "base/error.h"
#include "sim/graph.h"

namespace hocket::sim {

/// Which nodes are the same exchange.
struct Matching {
  std::vector<std::vector<NodeId>> members{};  ///< [exchange][rank]
  std::vector<int32_t> group{};                ///< of Graph::exchanges: index into members
};
/// Fails (internal) naming rank and node where a rank lacks an exchange that another has.
Expected<Matching> match(const Graph& graph);
/// Every rank issues its exchanges in the order of rank 0 (docs/dbo.md, R7). Fails (internal)
/// naming the first rank and node that differ.
Expected<void> check_order(const Graph& graph);

}  // namespace hocket::sim
