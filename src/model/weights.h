// One rank's weights in the form the kernels want, in memory of their own.
#pragma once
#include <functional>
#include <variant>
#include <vector>

#include "model/model.h"
#include "model/source.h"

namespace hocket::model {

/// Bump allocator that grows by blocks; nothing moves and nothing is freed before the whole.
class WeightMemory {
 public:
  std::byte* take(int64_t bytes);  ///< 64-byte aligned
  ops::TensorView make(device::DType dtype, std::initializer_list<int64_t> extents);
  int64_t bytes() const { return bytes_; }  ///< taken so far

 private:
  std::vector<device::Buffer> blocks_;
  int64_t left_ = 0, bytes_ = 0;
};

struct AttentionWeights {
  ops::TensorView norm, q_norm, k_norm;  ///< f32
  /// q, k and v below each other; or three, when FP8 rows do not end at a 128-block and blocks must not be mixed.
  std::vector<ops::PackedWeight> qkv;
  ops::PackedWeight o;
};
struct MoeWeights {
  ops::TensorView norm;  ///< f32 [H]
  ops::TensorView gate;  ///< f32 [E, H], all experts
  std::vector<ops::PackedWeight> gate_up, down;  ///< of this rank's experts
};
struct DenseWeights {
  ops::TensorView norm;  ///< f32 [H]
  ops::PackedWeight gate_up, down;
};
struct LayerWeights {
  AttentionWeights attention;
  std::variant<MoeWeights, DenseWeights> feed_forward;
};
struct Weights {
  WeightMemory memory;
  ops::TensorView embedding;   ///< bf16 [V, H]
  ops::TensorView final_norm;  ///< f32 [H]
  ops::TensorView inv_freq;    ///< f32 [head_dim / 2]
  ops::PackedWeight head;      ///< bf16 [V, H]; a packed copy of the embedding when tied
  std::vector<LayerWeights> layers;
};

/// Reads, checks and packs what `options.rank` needs. Only its own experts are read. Fails with one line naming the
/// tensor: an FP8 code that is NaN, a scale that is not finite, a file that changed meanwhile.
Expected<Weights> load_weights(const ModelConfig& config, const Manifest& manifest, const LoadOptions& options,
                               TensorSource& source);

}  // namespace hocket::model
