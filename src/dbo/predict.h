// How long a step would take whole and split, from measured costs of its stages. Pure: what policy `auto` decides by.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dbo/agree.h"

namespace hocket::dbo {

/// Microseconds over a count: linear between the points, constant before the first, the last slope beyond the last.
class Curve {
 public:
  struct Point {
    double count = 0, us = 0;
    bool operator==(const Point&) const = default;
  };
  Curve() = default;  ///< 0 everywhere
  /// Throws Error(config) unless counts rise strictly and nothing is negative or not finite.
  explicit Curve(std::vector<Point> points);
  double at(double count) const;
  std::span<const Point> points() const { return points_; }
  bool operator==(const Curve&) const = default;

 private:
  std::vector<Point> points_;
};

/// One layer of one ubatch, microseconds: compute before the exchange, dispatch, experts, combine, compute after it.
struct LayerCost {
  double before = 0, dispatch = 0, experts = 0, combine = 0, after = 0;
};

/// How long `layers` equal layers take: the ubatches take turns on one compute and one comm lane, in the order of run().
/// One ubatch: the serial time. Source: docs/dbo.md, "what overlaps what".
double step_us(std::span<const LayerCost> ubatches, int layers);
/// The time that one more layer adds to a long step.
double layer_us(std::span<const LayerCost> ubatches);

/// Costs of one phase. All counts are of one rank.
struct PhaseCosts {
  Curve before;             ///< by tokens; without the attention core
  Curve attention;          ///< by visible (query, key) pairs
  Curve dispatch, combine;  ///< by tokens
  Curve experts;            ///< by tokens, experts being spread evenly
  Curve after;              ///< by tokens
  Curve outside;            ///< by tokens: embedding, logits, sampling; once a step
  bool operator==(const PhaseCosts&) const = default;
};

/// What `hocket bench calibrate` measured, on one machine, for one model and number of ranks.
struct CostTable {
  int layers = 0;
  PhaseCosts prefill{}, decode{};
  const PhaseCosts& of(Phase phase) const { return phase == Phase::prefill ? prefill : decode; }
  bool operator==(const CostTable&) const = default;
};

struct Prediction {
  double whole_us = 0, split_us = 0;
  double gain() const { return split_us > 0 ? whole_us / split_us - 1 : 0; }
};

/// The step that the records describe, split into `ubatches` equal parts, against whole. Lanes run at the pace of the
/// busiest rank; experts get the mean of all ranks' tokens. REQUIRES: ubatches >= 2, a rank with tokens.
Prediction predict(std::span<const StepRecord> ranks, const CostTable& costs, Phase phase, int ubatches);

}  // namespace hocket::dbo
