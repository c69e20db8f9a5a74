// One rank's model: its weights (only its own experts) and the forward pass of one ubatch.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "comm/all2all.h"
#include "dbo/task.h"
#include "model/config.h"
#include "ops/ops.h"

namespace hocket::model {

enum class LoadFormat : uint8_t { automatic, dummy };

struct LoadOptions {
  int rank = 0, ranks = 1;  ///< experts [rank * E/ranks, (rank + 1) * E/ranks) are this rank's
  LoadFormat format = LoadFormat::automatic;
  uint64_t seed = 0;  ///< of dummy weights
  /// Called from the loading thread with bytes read so far and in all, of this rank.
  std::function<void(int64_t done, int64_t total)> progress{};
};

/// What one ubatch's pass reads and writes. All views live in the ubatch's arena or in the engine's buffers.
struct Batch {
  ops::TensorView ids;          ///< [T] i32
  ops::AttentionMeta attention;
  ops::TensorView logit_rows;   ///< [R] i32: rows of this ubatch whose logits are wanted
  ops::TensorView logits;       ///< [R, vocab] f32, written by the pass
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  /// Enqueues embedding, all layers, final norm and logits. Suspends only inside exchanges. kv: one cache a layer.
  /// The arguments outlive the task.
  virtual dbo::Task forward(dbo::Ubatch& ub, const Batch& batch, std::span<const ops::KvCache> kv,
                            comm::AllToAll& a2a) const = 0;
  /// Bytes of arena that forward() needs for `tokens` tokens and `logit_rows` rows of logits.
  virtual int64_t arena_bytes(int64_t tokens, int64_t logit_rows, const comm::Config& a2a) const = 0;
  /// What the all-to-all must carry for this model; ranks, capacity and ubatches are filled in by the engine.
  virtual comm::Config exchange_config() const = 0;
  virtual int64_t weight_bytes() const = 0;
};

/// Loads the weights of one rank. Fails with one line naming file, tensor and what is wrong.
Expected<std::unique_ptr<Model>> load_model(const std::filesystem::path& folder, const ModelConfig& config,
                                            const LoadOptions& options);

}  // namespace hocket::model
