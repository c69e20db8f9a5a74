// One rank's device side of a step: streams, memory, model, all-to-all. In: a plan and what the ranks agreed on. Out:
// sampled tokens, or an exception after which recover() makes the rank fit again.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "base/function_ref.h"
#include "comm/all2all.h"
#include "dbo/agree.h"
#include "dbo/cut.h"
#include "device/cpu/cpu_device.h"
#include "engine/batch.h"
#include "engine/sampler.h"
#include "model/model.h"

namespace hocket::engine {

/// Sizes and choices that are fixed at start-up.
struct StepperOptions {
  int64_t block_size = 16, kv_blocks = 0;
  int64_t max_batched_tokens = 0, max_seqs = 0, max_model_len = 0;
  int ubatches = 1;
  int threads = 1;
  Isa isa = Isa::generic;
  dbo::CutPolicy cut;
  std::chrono::milliseconds timeout{10'000};
  device::Recorder* recorder = nullptr;
  int rank = 0;  ///< of the recorder's lanes
};

struct Sampled {
  int32_t plan_row = 0;
  Sample sample;
};

/// How a step was cut on this rank, for the counters.
struct StepShape {
  dbo::Cut cut;
  int used = 0;  ///< ubatches that held tokens
};

class Stepper {
 public:
  /// `exchanges`: by dbo::Mode; both may be the same object. All outlive the stepper.
  Stepper(const model::Model& model, std::array<comm::AllToAll*, 2> exchanges, StepperOptions options);
  ~Stepper();
  using RowOf = FunctionRef<SampleRow(const dbo::PlanRow&)>;
  /// Runs the step and waits for it. Throws if it failed here or on a peer: nothing of it may be committed.
  std::vector<Sampled> run(const dbo::StepPlan& plan, const dbo::Decision& decision, RowOf row_of);
  /// Frees the peers after a failure on this rank and settles. Never throws.
  void abandon(const std::string& why) noexcept;
  /// Drains the streams and forgets their failures. Never throws.
  void settle() noexcept;
  const StepShape& shape() const { return shape_; }
  int64_t arena_high_water() const;

 private:
  struct SampleJob {
    std::span<float> logits;
    SampleRow row;
    Sampled* out;
  };
  void enqueue_passes(const dbo::StepPlan& plan, const dbo::Decision& decision);
  void enqueue_sampling(const dbo::StepPlan& plan, RowOf row_of);
  void require_ok() const;

  const model::Model& model_;
  std::array<comm::AllToAll*, 2> exchanges_;
  StepperOptions options_;
  device::cpu::CpuDevice device_;
  std::vector<device::Arena> arenas_;           // one per ubatch
  std::vector<device::Buffer> kv_memory_;       // k and v of each layer
  std::vector<ops::KvCache> kv_;
  std::vector<dbo::Ubatch> ubatches_;           // of the current step
  std::vector<UbatchBatch> batches_;
  std::vector<SampleJob> jobs_;
  std::vector<Sampled> sampled_;
  StepShape shape_;
  std::unique_ptr<device::Stream> compute_, comm_;  // last: they end before what their work touches
};

}  // namespace hocket::engine
