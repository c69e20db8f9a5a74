// The stages of a model's layers on one rank, as launches with exact counts of FLOPs and bytes.
#pragma once
#include "sim/step.h"

namespace hocket::sim {

class ModelStages final : public Stages {
 public:
  /// Launches of a layer and ubatch with experts, the transfers' included.
  static constexpr double kLaunches = 17;

  ModelStages(const StepSetup& setup, const Routing& routing, const StepShape& shape, int rank)
      : setup_(setup), model_(setup.model), routing_(routing), shape_(shape), rank_(rank) {}
  bool is_moe(int layer) const override { return layer >= model_.dense_layers; }
  void attention(dbo::Ubatch& ub) override;
  WireSpec wire(dbo::Ubatch& ub, Direction direction) override;
  void experts(dbo::Ubatch& ub) override;
  void shared(dbo::Ubatch& ub) override;
  void finish(dbo::Ubatch& ub) override;
  void dense(dbo::Ubatch& ub) override;
  void tail(dbo::Ubatch& ub) override;

 private:
  const Share& mine(const dbo::Ubatch& ub) const;
  double tokens_of(int rank, int ubatch) const;
  double tokens_of_all(int ubatch) const;
  void feed_forward(dbo::Ubatch& ub, const char* stage, int64_t width);
  /// Rows that reach this rank's experts from all ranks: choices, and tokens counted once.
  double expert_rows(int ubatch) const;
  double token_rows(int ubatch) const;
  double touched(double rows) const;                 ///< this rank's experts that have a row
  std::vector<double> row_counts(int ubatch) const;  ///< rows sent to each rank
  static void launch(dbo::Ubatch& ub, const char* stage, device::Cost cost) {
    ub.lane().launch(stage, cost, {});
  }

  const StepSetup& setup_;
  const ModelSpec& model_;
  const Routing& routing_;
  const StepShape& shape_;
  int rank_;
};

}  // namespace hocket::sim
