#include "sim/routing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/rng.h"

namespace hocket::sim {
namespace {

constexpr int kDraws = 8192;
constexpr uint64_t kSeed = 38451;

// Chance that k of n, drawn without putting back, all miss m of them.
double all_miss(int64_t n, int64_t m, int64_t k) {
  double chance = 1;
  for (int64_t i = 0; i < k; ++i)
    chance *= std::max(0.0, static_cast<double>(n - m - i)) / static_cast<double>(n - i);
  return chance;
}

double choose(int64_t n, int64_t k) {
  double value = 1;
  for (int64_t i = 0; i < k; ++i) value *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  return k < 0 || k > n ? 0 : value;
}

// Chance that a token reaches a set of `owned` neighbouring experts: over how many of its groups
// are among the best, then over the choices within them.
double reach(const ModelSpec& model, int64_t owned) {
  const int64_t group = model.experts / model.groups;
  const int64_t pool = group * model.top_groups;
  if (model.groups == model.top_groups) return 1 - all_miss(model.experts, owned, model.top_k);
  if (owned < group) {
    const double chosen = static_cast<double>(model.top_groups) / static_cast<double>(model.groups);
    return chosen * (1 - all_miss(pool, owned, model.top_k));
  }
  const int64_t mine = owned / group;
  double sum = 0;
  for (int64_t j = 0; j <= std::min(mine, model.top_groups); ++j) {
    const double ways = choose(mine, j) * choose(model.groups - mine, model.top_groups - j) /
                        choose(model.groups, model.top_groups);
    sum += ways * (1 - all_miss(pool, j * group, model.top_k));
  }
  return sum;
}

Routing uniform_routing(const ModelSpec& model, int ranks, int node_ranks) {
  const auto count = static_cast<size_t>(ranks);
  Routing routing;
  routing.choices.assign(count, static_cast<double>(model.top_k) / ranks);
  routing.reached.assign(count, reach(model, model.experts / ranks));
  const int nodes = (ranks + node_ranks - 1) / node_ranks;
  routing.node_reached.assign(static_cast<size_t>(nodes), reach(model, model.experts / nodes));
  return routing;
}

// Top k of log-weights with Gumbel noise are k weighted draws without putting back.
// Source: Vieira 2014, "Gumbel-max trick and weighted reservoir sampling".
std::vector<int64_t> draw(const std::vector<double>& log_weights, int64_t k, uint64_t token) {
  std::vector<std::pair<double, int64_t>> keys;
  for (size_t e = 0; e < log_weights.size(); ++e) {
    const double u = std::max(uniform(kSeed, token + 1, e), 1e-18);
    keys.emplace_back(std::log(-std::log(u)) - log_weights[e], static_cast<int64_t>(e));
  }
  std::partial_sort(keys.begin(), keys.begin() + k, keys.end());
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < k; ++i) chosen.push_back(keys[static_cast<size_t>(i)].second);
  return chosen;
}

std::vector<double> zipf_weights(int64_t experts, double exponent) {
  std::vector<std::pair<double, size_t>> places;
  for (size_t e = 0; e < static_cast<size_t>(experts); ++e)
    places.emplace_back(uniform(kSeed, 0, e), e);
  std::sort(places.begin(), places.end());
  std::vector<double> weights(places.size());
  for (size_t i = 0; i < places.size(); ++i)
    weights[places[i].second] = -exponent * std::log(static_cast<double>(i + 1));
  return weights;
}

template <class Choose>
Routing counted(const ModelSpec& model, int ranks, int node_ranks, int tokens, Choose choices_of) {
  Routing routing;
  routing.choices.assign(static_cast<size_t>(ranks), 0);
  routing.reached.assign(static_cast<size_t>(ranks), 0);
  routing.node_reached.assign(static_cast<size_t>((ranks + node_ranks - 1) / node_ranks), 0);
  const int64_t local = model.experts / ranks;
  const double one = 1.0 / tokens;
  for (int t = 0; t < tokens; ++t) {
    std::vector<char> seen(routing.reached.size()), node_seen(routing.node_reached.size());
    for (const int64_t expert : choices_of(t)) {
      const auto rank = static_cast<size_t>(expert / local);
      const size_t node = rank / static_cast<size_t>(node_ranks);
      routing.choices[rank] += one;
      if (!std::exchange(seen[rank], 1)) routing.reached[rank] += one;
      if (!std::exchange(node_seen[node], 1)) routing.node_reached[node] += one;
    }
  }
  return routing;
}

}  // namespace

Expected<RoutingSpec> parse_routing(const std::string& text) {
  if (text == "uniform") return RoutingSpec{};
  if (text == "one-expert") return RoutingSpec{RoutingKind::one_expert, 0};
  if (text.starts_with("zipf:")) {
    char* end = nullptr;
    const double exponent = std::strtod(text.c_str() + 5, &end);
    if (end != text.c_str() + 5 && *end == '\0' && exponent >= 0 && exponent <= 4)
      return RoutingSpec{RoutingKind::zipf, exponent};
  }
  return fail(Code::config, "expected uniform, zipf:S with S from 0 to 4, or one-expert.");
}

std::string name(const RoutingSpec& spec) {
  if (spec.kind == RoutingKind::zipf) return fmt::format("zipf:{}", spec.exponent);
  return spec.kind == RoutingKind::uniform ? "uniform" : "one-expert";
}

double Routing::distinct() const { return std::accumulate(reached.begin(), reached.end(), 0.0); }

double Routing::imbalance() const {
  const double sum = std::accumulate(choices.begin(), choices.end(), 0.0);
  return *std::max_element(choices.begin(), choices.end()) * static_cast<double>(choices.size()) /
         sum;
}

Routing route(const ModelSpec& model, int ranks, int node_ranks, const RoutingSpec& spec) {
  node_ranks = std::max(1, std::min(node_ranks, ranks));
  if (spec.kind == RoutingKind::uniform) return uniform_routing(model, ranks, node_ranks);
  if (spec.kind == RoutingKind::one_expert) {
    std::vector<int64_t> first(static_cast<size_t>(model.top_k));
    std::iota(first.begin(), first.end(), 0);
    return counted(model, ranks, node_ranks, 1, [&](int) { return first; });
  }
  const std::vector<double> weights = zipf_weights(model.experts, spec.exponent);
  return counted(model, ranks, node_ranks, kDraws,
                 [&](int t) { return draw(weights, model.top_k, static_cast<uint64_t>(t)); });
}

}  // namespace hocket::sim
