#include "sim/flows.h"

#include <algorithm>
#include <limits>

namespace hocket::sim {
namespace {

struct Resource {
  double left = 0;
  int flows = 0;  // that have no rate yet
  double fair() const { return left / flows; }
};

// Of a flow: sender's egress, receiver's ingress, the stores of its node.
struct Uses {
  size_t egress, ingress, store;
};

}  // namespace

void share(std::span<Flow> flows, int ranks, const LinkLimits& limits,
           const std::vector<double>& store) {
  const auto r = static_cast<size_t>(ranks);
  std::vector<Resource> resources(4 * r);  // within a node out, in; between nodes out, in
  for (size_t i = 0; i < r; ++i) {
    resources[i].left = limits.egress;
    resources[r + i].left = limits.ingress;
    resources[2 * r + i].left = resources[3 * r + i].left = limits.nic;
  }
  std::vector<Uses> uses;
  uses.reserve(flows.size());
  NodeId last = -1;
  for (Flow& flow : flows) {
    flow.rate = -1;
    if (flow.node != last) {
      const double most = store[static_cast<size_t>(flow.node)];
      resources.push_back({most > 0 ? most : std::numeric_limits<double>::infinity(), 0});
      last = flow.node;
    }
    const size_t fabric = limits.between_nodes(flow.from, flow.to) ? 2 * r : 0;
    uses.push_back({fabric + static_cast<size_t>(flow.from),
                    fabric + r + static_cast<size_t>(flow.to), resources.size() - 1});
    for (size_t use : {uses.back().egress, uses.back().ingress, uses.back().store})
      ++resources[use].flows;
  }
  for (size_t unset = flows.size(); unset > 0;) {
    double least = std::numeric_limits<double>::infinity();
    for (const Resource& one : resources) {
      if (one.flows > 0) least = std::min(least, one.fair());
    }
    // what is as full as the fullest, within rounding, is full at the same time
    std::vector<char> full(resources.size());
    for (size_t i = 0; i < resources.size(); ++i)
      full[i] = resources[i].flows > 0 && resources[i].fair() <= least * (1 + 1e-12);
    for (size_t i = 0; i < flows.size(); ++i) {
      const Uses& use = uses[i];
      if (flows[i].rate >= 0 || !(full[use.egress] || full[use.ingress] || full[use.store]))
        continue;
      flows[i].rate = least;
      --unset;
      for (size_t one : {use.egress, use.ingress, use.store}) {
        resources[one].left -= least;
        --resources[one].flows;
      }
    }
  }
}

}  // namespace hocket::sim
