#include "sim/fit_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "telemetry/overlap.h"

namespace hocket::sim {
namespace {

using telemetry::TraceSpan;

double us(int64_t ns) { return static_cast<double>(ns) / 1000; }

/// The middle one of an odd number; of an even number the upper of the two. 0 of none.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double argument(const TraceSpan& span, std::string_view key) {
  for (const auto& [name, value] : span.args) {
    if (name == key) return static_cast<double>(value);
  }
  return 0;
}

bool stage_is(const TraceSpan& span, std::string_view stage) {
  return span.name.size() > stage.size() && std::string_view(span.name).ends_with(stage) &&
         span.name[span.name.size() - stage.size() - 1] == '/';
}

/// The launches of one layer in one step of one rank, each lane by begin.
struct LayerSpans {
  std::vector<const TraceSpan*> compute, comm;
};

const TraceSpan* first_from(const std::vector<const TraceSpan*>& spans, int64_t time) {
  for (const TraceSpan* span : spans) {
    if (span->begin_ns >= time) return span;
  }
  return nullptr;
}

struct Measured {
  dbo::LayerCost cost;
  double attention = 0, all = 0;
};

/// No value for a layer without an exchange, or whose spans are not all there.
std::optional<Measured> measure(const LayerSpans& layer) {
  const TraceSpan *dispatch = nullptr, *combine = nullptr;
  for (const TraceSpan* span : layer.comm) {
    if (stage_is(*span, "dispatch")) dispatch = span;
    if (stage_is(*span, "combine")) combine = span;
  }
  if (dispatch == nullptr || combine == nullptr || layer.compute.empty()) return std::nullopt;
  const TraceSpan *arrived = first_from(layer.compute, dispatch->begin_ns), *home = first_from(layer.compute, combine->begin_ns);
  if (arrived == nullptr || home == nullptr || arrived->begin_ns > combine->begin_ns) return std::nullopt;
  const int64_t begin = layer.compute.front()->begin_ns, end = layer.compute.back()->end_ns;
  Measured out;
  for (const TraceSpan* span : layer.compute) {
    if (stage_is(*span, "attention")) out.attention += us(span->end_ns - span->begin_ns);
  }
  out.cost = {.before = std::max(0.0, us(dispatch->begin_ns - begin) - out.attention),
              .dispatch = us(arrived->begin_ns - dispatch->begin_ns),
              .experts = us(combine->begin_ns - arrived->begin_ns),
              .combine = us(home->begin_ns - combine->begin_ns),
              .after = us(end - home->begin_ns)};
  out.all = us(end - begin);
  return out;
}

StepCosts costs_of(const TraceSpan& step, const std::map<int, LayerSpans>& layers) {
  StepCosts out{.phase = argument(step, "uniform_query") > 0 ? dbo::Phase::decode : dbo::Phase::prefill,
                .tokens = argument(step, "tokens"), .pairs = argument(step, "attention_pairs")};
  std::array<std::vector<double>, 6> stages;
  double inside = 0;
  for (const auto& [index, spans] : layers) {
    const auto layer = measure(spans);
    if (!layer) continue;
    const dbo::LayerCost& c = layer->cost;
    size_t i = 0;
    for (double value : {c.before, c.dispatch, c.experts, c.combine, c.after, layer->attention}) stages[i++].push_back(value);
    inside += layer->all;
    out.layers++;
  }
  out.layer = {median(stages[0]), median(stages[1]), median(stages[2]), median(stages[3]), median(stages[4])};
  out.attention = median(stages[5]);
  out.outside = std::max(0.0, us(step.end_ns - step.begin_ns) - inside);
  return out;
}

/// The nearest costs that never fall while counts rise: more tokens do not take less time, so what falls is noise.
/// Source: pool adjacent violators, Ayer et al. 1955.
void make_rising(std::vector<dbo::Curve::Point>& points) {
  struct Pool {
    double sum;
    size_t size;
    double mean() const { return sum / static_cast<double>(size); }
  };
  std::vector<Pool> pools;
  for (const dbo::Curve::Point& point : points) {
    pools.push_back({point.us, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back() = {pools.back().sum + last.sum, pools.back().size + last.size};
    }
  }
  auto point = points.begin();
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.size; ++i) (point++)->us = pool.mean();
  }
}

/// Count by count, those within an eighth of an octave together: their mean count and median cost.
dbo::Curve curve(const std::vector<std::pair<double, double>>& samples) {
  constexpr double kBuckets = 8;  // an octave
  std::map<int64_t, std::vector<std::pair<double, double>>> buckets;
  for (const auto& sample : samples) {
    if (sample.first >= 1) buckets[std::llround(std::log2(sample.first) * kBuckets)].push_back(sample);
  }
  std::vector<dbo::Curve::Point> points;
  for (const auto& [bucket, members] : buckets) {
    double count = 0;
    std::vector<double> costs;
    for (const auto& [at, cost] : members) {
      count += at / static_cast<double>(members.size());
      costs.push_back(cost);
    }
    points.push_back({count, median(std::move(costs))});
  }
  make_rising(points);
  return dbo::Curve(std::move(points));
}

dbo::PhaseCosts phase_costs(const std::vector<const StepCosts*>& steps) {
  const auto by = [&](auto count, auto cost) {
    std::vector<std::pair<double, double>> samples;
    for (const StepCosts* step : steps) samples.emplace_back(count(*step), cost(*step));
    return curve(samples);
  };
  const auto tokens = [](const StepCosts& s) { return s.tokens; };
  const auto mean = [](const StepCosts& s) { return s.mean_tokens; };
  const auto pairs = [](const StepCosts& s) { return s.pairs; };
  return {.before = by(tokens, [](const StepCosts& s) { return s.layer.before; }),
          .attention = by(pairs, [](const StepCosts& s) { return s.attention; }),
          .dispatch = by(tokens, [](const StepCosts& s) { return s.layer.dispatch; }),
          .combine = by(tokens, [](const StepCosts& s) { return s.layer.combine; }),
          .experts = by(mean, [](const StepCosts& s) { return s.layer.experts; }),
          .after = by(tokens, [](const StepCosts& s) { return s.layer.after; }),
          .outside = by(tokens, [](const StepCosts& s) { return s.outside; })};
}

}  // namespace

std::vector<StepCosts> step_costs(std::span<const TraceSpan> spans) {
  std::map<int, std::vector<const TraceSpan*>> steps;  // by rank, then begin
  for (const TraceSpan& span : spans) {
    if (telemetry::is_step(span)) steps[span.rank].push_back(&span);
  }
  const auto by_begin = [](const TraceSpan* a, const TraceSpan* b) { return a->begin_ns < b->begin_ns; };
  for (auto& [rank, list] : steps) std::sort(list.begin(), list.end(), by_begin);
  std::map<const TraceSpan*, std::map<int, LayerSpans>> layers;
  for (const TraceSpan& span : spans) {
    const auto& list = steps[span.rank];
    const auto after = std::upper_bound(list.begin(), list.end(), &span, by_begin);
    const int layer = telemetry::layer_of(span.name);
    if (after == list.begin() || layer < 0) continue;
    LayerSpans& place = layers[*(after - 1)][layer];
    (telemetry::is_communication(span) ? place.comm : place.compute).push_back(&span);
  }
  std::map<std::string, std::pair<size_t, double>> together;  // by the step's name: ranks with tokens, their tokens
  for (const auto& [rank, list] : steps) {
    for (const TraceSpan* step : list) {
      auto& [ranks, tokens] = together[step->name];
      ranks += argument(*step, "tokens") > 0 ? 1 : 0;
      tokens += argument(*step, "tokens");
    }
  }
  std::vector<StepCosts> out;
  for (auto& [step, lanes] : layers) {
    const auto& [ranks, tokens] = together[step->name];
    if (argument(*step, "ubatches") != 1 || ranks != steps.size()) continue;
    for (auto& [index, layer] : lanes) {
      std::sort(layer.compute.begin(), layer.compute.end(), by_begin);
      std::sort(layer.comm.begin(), layer.comm.end(), by_begin);
    }
    StepCosts costs = costs_of(*step, lanes);
    costs.mean_tokens = tokens / static_cast<double>(ranks);
    if (costs.layers > 0) out.push_back(costs);
  }
  return out;
}

Expected<dbo::CostTable> fit_costs(std::span<const StepCosts> steps) {
  dbo::CostTable table;
  for (dbo::Phase phase : {dbo::Phase::prefill, dbo::Phase::decode}) {
    std::vector<const StepCosts*> members;
    std::set<double> counts;
    for (const StepCosts& step : steps) {
      if (step.phase != phase) continue;
      if (table.layers != 0 && step.layers != table.layers) {
        return fail(Code::bad_input, fmt::format("the trace has steps with {} and with {} layers that exchange tokens", table.layers,
                                                 step.layers));
      }
      table.layers = step.layers;
      members.push_back(&step);
      counts.insert(step.tokens);
    }
    const bool prefill = phase == dbo::Phase::prefill;
    if (counts.size() < 2) {
      return fail(Code::bad_input, fmt::format("the trace has whole {} steps of {} token count{}, at least 2 are needed",
                                               prefill ? "prefill" : "decode", counts.size(), counts.size() == 1 ? "" : "s"));
    }
    (prefill ? table.prefill : table.decode) = phase_costs(members);
  }
  return table;
}

}  // namespace hocket::sim
