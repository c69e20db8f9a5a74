#include "sim/match.h"

#include <fmt/format.h>

#include <map>

namespace hocket::sim {
namespace {

const Key& key_of(const Graph& graph, NodeId id) {
  const auto index = static_cast<size_t>(graph.nodes[static_cast<size_t>(id)].exchange);
  return graph.exchanges[index].key;
}

std::vector<std::vector<NodeId>> exchanges_of_ranks(const Graph& graph) {
  std::vector<std::vector<NodeId>> ranks(static_cast<size_t>(graph.ranks));
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.exchange >= 0) ranks[static_cast<size_t>(node.rank)].push_back(static_cast<NodeId>(i));
  }
  return ranks;
}

}  // namespace

Expected<Matching> match(const Graph& graph) {
  Matching matching;
  matching.group.assign(graph.exchanges.size(), -1);
  std::map<Key, int32_t> groups;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.exchange < 0) continue;
    const auto index = static_cast<size_t>(node.exchange);
    const auto next = static_cast<int32_t>(matching.members.size());
    const int32_t group = groups.emplace(graph.exchanges[index].key, next).first->second;
    if (group == next) matching.members.emplace_back(static_cast<size_t>(graph.ranks), -1);
    NodeId& member = matching.members[static_cast<size_t>(group)][static_cast<size_t>(node.rank)];
    if (member >= 0)
      return fail(Code::internal,
                  fmt::format("{} is issued twice.", describe(graph, static_cast<NodeId>(i))));
    member = static_cast<NodeId>(i);
    matching.group[index] = group;
  }
  for (const auto& members : matching.members) {
    NodeId some = -1;
    for (const NodeId id : members) some = std::max(some, id);
    for (size_t rank = 0; rank < members.size(); ++rank) {
      if (members[rank] < 0)
        return fail(Code::internal,
                    fmt::format("{} has no partner on rank {}.", describe(graph, some), rank));
    }
  }
  return matching;
}

Expected<void> check_order(const Graph& graph) {
  const auto ranks = exchanges_of_ranks(graph);
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    for (size_t i = 0; i < std::min(ranks[0].size(), ranks[rank].size()); ++i) {
      if (key_of(graph, ranks[0][i]) == key_of(graph, ranks[rank][i])) continue;
      return fail(Code::internal,
                  fmt::format("exchange {} is {} but {}: the ranks take turns differently.", i,
                              describe(graph, ranks[0][i]), describe(graph, ranks[rank][i])));
    }
  }
  return {};
}

}  // namespace hocket::sim
