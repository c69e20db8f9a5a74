// One step of all ranks of a model on a machine: shape in, graph and times out.
#pragma once
#include <compare>
#include <vector>

#include "dbo/cut.h"
#include "sim/hardware.h"
#include "sim/layers.h"
#include "sim/model_spec.h"
#include "sim/routing.h"

namespace hocket::sim {

/// What one ubatch of one rank computes.
struct Share {
  int64_t tokens = 0;
  int64_t pairs = 0;         ///< visible (query, key) pairs
  int64_t window_pairs = 0;  ///< the same in layers with a window
  int64_t context = 0;       ///< cached tokens that attention reads
  int64_t samples = 0;       ///< rows whose logits are computed
  auto operator<=>(const Share&) const = default;
};

/// All that the length of a step depends on, given model and machine.
struct StepShape {
  std::vector<std::vector<Share>> ranks{};  ///< [rank][ubatch]
  dbo::Mode mode = dbo::Mode::high_throughput;
  dbo::Phase phase = dbo::Phase::prefill;
  dbo::Overlap overlap = dbo::Overlap::off;
  auto operator<=>(const StepShape&) const = default;
};

/// The shape of a plan on one rank, cut into `ubatches`.
std::vector<Share> shares_of(const dbo::StepPlan& plan, int ubatches, const dbo::CutPolicy& cut,
                             const ModelSpec& model);

/// What is simulated: fixed for a run.
struct StepSetup {
  ModelSpec model;
  Hardware hardware;
  int ranks = 4;
  int comm_sms = 20;
  Partition partition = Partition::dynamic;
  Schedule schedule = Schedule::hocket;
  EventCapture capture = EventCapture::before_yield;
  RoutingSpec routing{};
};
/// Everything at once that keeps `setup` from being run, one line each; empty: nothing.
std::vector<std::string> problems(const StepSetup& setup);

struct RecordedStep {
  Graph graph;
  Solution solution;
};

/// Prices and runs steps. Pure but for a cache that the caller keeps.
class StepModel {
 public:
  /// REQUIRES: problems(setup) is empty.
  explicit StepModel(StepSetup setup);
  const StepSetup& setup() const { return setup_; }
  const Routing& routing() const { return routing_; }
  /// Throws Error if the ranks wait for each other.
  RecordedStep run(const StepShape& shape) const;
  Price price(const device::Label& label, const device::Cost& cost) const;

 private:
  StepSetup setup_;
  Routing routing_;
};

}  // namespace hocket::sim
