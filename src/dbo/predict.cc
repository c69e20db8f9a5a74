#include "dbo/predict.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace hocket::dbo {
namespace {

/// The busiest rank's and the mean rank's share of a step.
struct Load {
  double tokens = 0, pairs = 0, mean_tokens = 0;
};

Load load_of(std::span<const StepRecord> ranks) {
  Load load;
  for (const StepRecord& rank : ranks) {
    load.tokens = std::max(load.tokens, static_cast<double>(rank.tokens));
    load.pairs = std::max(load.pairs, static_cast<double>(rank.attention_pairs));
    load.mean_tokens += static_cast<double>(rank.tokens) / static_cast<double>(ranks.size());
  }
  return load;
}

double predict_us(const Load& load, const CostTable& table, Phase phase, int ubatches) {
  const PhaseCosts& costs = table.of(phase);
  const double tokens = load.tokens / ubatches;
  const LayerCost part{.before = costs.before.at(tokens) + costs.attention.at(load.pairs / ubatches),
                       .dispatch = costs.dispatch.at(tokens),
                       .experts = costs.experts.at(load.mean_tokens / ubatches),
                       .combine = costs.combine.at(tokens),
                       .after = costs.after.at(tokens)};
  const std::vector<LayerCost> parts(static_cast<size_t>(ubatches), part);
  return costs.outside.at(load.tokens) + step_us(parts, table.layers);
}

}  // namespace

Curve::Curve(std::vector<Point> points) : points_(std::move(points)) {
  double last = -1;
  for (const Point& point : points_) {
    if (!std::isfinite(point.count) || !std::isfinite(point.us) || point.us < 0 || point.count <= last) {
      throw Error(Code::config, fmt::format("cost curve: point [{}, {}] after {}; counts must rise and costs be at least 0",
                                            point.count, point.us, last));
    }
    last = point.count;
  }
}

double Curve::at(double count) const {
  if (points_.empty()) return 0;
  if (points_.size() == 1 || count <= points_.front().count) return points_.front().us;
  const auto above = std::find_if(points_.begin() + 1, points_.end() - 1, [&](const Point& p) { return p.count >= count; });
  const Point& left = *(above - 1);
  const double slope = (above->us - left.us) / (above->count - left.count);
  return std::max(0.0, left.us + slope * (count - left.count));
}

double step_us(std::span<const LayerCost> ubatches, int layers) {
  double compute = 0, comm = 0;                    // when each lane is free
  std::vector<double> arrived(ubatches.size(), 0);  // when what a ubatch waits for is there
  const auto turn = [&](size_t ubatch, double work, double transfer) {
    compute = std::max(compute, arrived[ubatch]) + work;
    if (transfer > 0) comm = std::max(comm, compute) + transfer;
    arrived[ubatch] = transfer > 0 ? comm : compute;
  };
  for (int layer = 0; layer < layers; ++layer) {
    for (size_t i = 0; i < ubatches.size(); ++i) {
      const double carried = layer > 0 ? ubatches[i].after : 0;  // finishes the layer before in the same turn
      turn(i, carried + ubatches[i].before, ubatches[i].dispatch);
    }
    for (size_t i = 0; i < ubatches.size(); ++i) turn(i, ubatches[i].experts, ubatches[i].combine);
  }
  for (size_t i = 0; i < ubatches.size(); ++i) turn(i, ubatches[i].after, 0);
  return compute;
}

double layer_us(std::span<const LayerCost> ubatches) {
  constexpr int kSettled = 4;  // the order repeats from the second layer on
  return step_us(ubatches, kSettled + 1) - step_us(ubatches, kSettled);
}

Prediction predict(std::span<const StepRecord> ranks, const CostTable& costs, Phase phase, int ubatches) {
  const Load load = load_of(ranks);
  return {.whole_us = predict_us(load, costs, phase, 1), .split_us = predict_us(load, costs, phase, ubatches)};
}

}  // namespace hocket::dbo
