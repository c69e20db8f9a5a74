// How many rows go where: expectations of a token's choice of experts. No row is drawn at run time,
// so equal ranks stay equal.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/model_spec.h"

namespace hocket::sim {

enum class RoutingKind : uint8_t { uniform, zipf, one_expert };
/// zipf: the chance of the expert at place i of a shuffled list falls with 1 / i^exponent.
/// one_expert: every token takes expert 0 and its neighbours, all on the first rank: the worst
/// case.
struct RoutingSpec {
  RoutingKind kind = RoutingKind::uniform;
  double exponent = 1;
};
/// "uniform", "zipf:S" with S from 0 to 4, "one-expert".
Expected<RoutingSpec> parse_routing(const std::string& text);
std::string name(const RoutingSpec& spec);

/// Of one token, by rank that owns experts: how many of its choices are there (sums to top_k), and
/// the chance that at least one is (sums to the distinct ranks that it reaches).
struct Routing {
  std::vector<double> choices, reached;
  std::vector<double> node_reached;  ///< the same for nodes of `node_ranks`
  double distinct() const;
  double imbalance() const;  ///< busiest rank's choices over the mean
};
/// REQUIRES: experts % ranks == 0. Uniform: exact. zipf: 8192 tokens drawn with a fixed
/// seed from all experts, groups ignored.
Routing route(const ModelSpec& model, int ranks, int node_ranks, const RoutingSpec& spec);

}  // namespace hocket::sim
