#include "sim/report.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace hocket::sim {
namespace {

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

/// Time in which a lane has at least one span, by (rank, lane).
std::map<std::pair<int, std::string>, int64_t> busy(std::vector<telemetry::TraceSpan> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  std::map<std::pair<int, std::string>, int64_t> sum, until;
  for (const auto& span : spans) {
    const auto key = std::pair(span.rank, span.lane);
    int64_t& reached = until[key];
    sum[key] += std::max<int64_t>(0, span.end_ns - std::max(span.begin_ns, reached));
    reached = std::max(reached, span.end_ns);
  }
  return sum;
}

}  // namespace

StepFigures figures(const RecordedStep& step) {
  const std::vector<telemetry::TraceSpan> all = spans(step.graph, step.solution);
  const telemetry::OverlapReport report = telemetry::analyse_overlap(all, 0);
  const double ranks = step.graph.ranks;
  StepFigures figures{.step_ms = ms(step.solution.length.count())};
  figures.compute_ms = ms(report.total.compute_ns) / ranks;
  figures.comm_ms = ms(report.total.comm_ns) / ranks;
  figures.exposed_ms = ms(report.total.exposed_ns) / ranks;
  const double most = std::max(figures.compute_ms, figures.comm_ms);
  figures.bound = most > 0 ? (figures.compute_ms + figures.comm_ms) / most : 1;
  figures.efficiency = report.total.efficiency();
  for (const auto& [lane, ns] : busy(all)) {
    const double share = ms(ns) / figures.step_ms / ranks;
    if (lane.second == "host") figures.host_use += share;
    if (lane.second == "compute") figures.compute_use += share;
    if (lane.second == "comm") figures.comm_use += share;
    if (lane.second == "link") figures.link_use += share;
  }
  return figures;
}

double step_ms(const StepModel& model, const StepShape& shape) {
  return ms(model.run(shape).solution.length.count());
}

double gain(const StepModel& model, const Workload& workload, dbo::Phase phase, int64_t tokens,
            int ubatches) {
  const auto time = [&](int count) {
    return step_ms(model, plain_step(model.setup(), workload, phase, tokens, count));
  };
  return time(1) / time(ubatches) - 1;
}

std::optional<int64_t> smallest_with_gain(const StepModel& model, const Workload& workload,
                                          dbo::Phase phase, double wanted, int64_t most) {
  const auto enough = [&](int64_t tokens) {
    return gain(model, workload, phase, tokens, 2) >= wanted;
  };
  int64_t below = 1, above = 2;
  while (!enough(above)) {
    if (above >= most) return std::nullopt;
    below = above;
    above = std::min(most, std::max(above + 1, above + above / 4));
  }
  while (above - below > std::max<int64_t>(1, above / 100)) {
    const int64_t middle = below + (above - below) / 2;
    (enough(middle) ? above : below) = middle;
  }
  return above;
}

std::vector<Variant> sweep_comm_sms(const StepModel& model, const Workload& workload,
                                    dbo::Phase phase, int64_t tokens) {
  std::vector<Variant> all;
  const StepShape shape = plain_step(model.setup(), workload, phase, tokens, 2);
  for (const int comm : {2, 4, 6, 8, 12, 16, 20, 24, 32}) {
    if (comm >= static_cast<int>(model.setup().hardware.sms)) break;
    StepSetup other = model.setup();
    other.comm_sms = comm;
    all.push_back({comm, step_ms(StepModel(other), shape)});
  }
  return all;
}

Advice advise(const StepModel& model, const Workload& workload, const StepShape& steady) {
  Advice advice{.phase = steady.phase};
  for (const auto& rank : steady.ranks) {
    int64_t tokens = 0;
    for (const Share& share : rank) tokens += share.tokens;
    advice.tokens = std::max(advice.tokens, tokens);
  }
  for (int ubatches = 1; ubatches <= 4; ++ubatches) {
    const StepShape shape =
        plain_step(model.setup(), workload, steady.phase, advice.tokens, ubatches);
    advice.ubatches.push_back({ubatches, step_ms(model, shape)});
  }
  if (steady.mode == dbo::Mode::high_throughput)
    advice.comm_sms = sweep_comm_sms(model, workload, steady.phase, advice.tokens);
  const int64_t most = largest_step(workload, model.setup().hardware);
  advice.break_even = smallest_with_gain(model, workload, steady.phase, 0, most);
  advice.threshold = smallest_with_gain(model, workload, steady.phase, kMinGain, most);
  return advice;
}

}  // namespace hocket::sim
