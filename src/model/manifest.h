// Which tensors a checkpoint of this model must hold: the one place that knows their names and shapes.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "model/checkpoint.h"
#include "model/config.h"

namespace hocket::model {

/// What a tensor is used for, and so which stored types it may have.
enum class Role : uint8_t {
  vector,  ///< norms and the router: BF16, F16 or F32, widened to f32
  bf16,    ///< matrices: BF16
  fp8,     ///< matrices: F8_E4M3
  scale,   ///< of fp8 blocks: F32, BF16 or F8_E8M0, widened to f32
};

/// Experts of one rank are loaded, all others are left alone; these are the two values that are no expert.
inline constexpr int64_t kNoExpert = -1, kAllExperts = -2;

struct TensorSpec {
  std::string name;
  Role role = Role::vector;
  std::vector<int64_t> shape;
  int64_t expert = kNoExpert;  ///< kAllExperts: fused, experts along the first extent
  int64_t elements() const;
};

/// How a checkpoint stores experts: a tensor per expert and projection, or as transformers 5 keeps them in memory.
enum class ExpertLayout : uint8_t { per_expert, fused };

class Manifest {
 public:
  Manifest(const ModelConfig& config, ExpertLayout layout);
  ExpertLayout layout() const { return layout_; }
  const std::vector<TensorSpec>& specs() const { return specs_; }
  /// Throws InvariantError for a name that is not part of the model.
  const TensorSpec& at(const std::string& name) const;
  bool contains(const std::string& name) const { return index_.contains(name); }
  /// Compares names, types and shapes with the files' headers. Fails with one line that lists the first five names that
  /// are missing or unexpected, or names the tensor whose shape or type contradicts config.json.
  Expected<void> check(const Checkpoint& checkpoint, const ModelConfig& config) const;

 private:
  void add(TensorSpec spec);
  void add_matrix(const ModelConfig& config, const std::string& module, std::vector<int64_t> shape, int64_t expert);
  void add_attention(const ModelConfig& config, const std::string& layer);
  void add_experts(const ModelConfig& config, const std::string& mlp);
  ExpertLayout layout_;
  std::vector<TensorSpec> specs_;
  std::unordered_map<std::string, size_t> index_;
};

/// The tensor that holds a module's matrix, and the one with its FP8 scales. Fused experts have no ".weight".
std::string matrix_name(const std::string& module, ExpertLayout layout);
std::string scale_name(const std::string& module, ExpertLayout layout);
ExpertLayout layout_of(const Checkpoint& checkpoint);
/// The format of a module's matrix after modules_to_not_convert: a name, or a prefix that ends before a dot.
ops::WeightFormat format_of(const ModelConfig& config, const std::string& module);
/// The one format of all routed experts. Fails when modules_to_not_convert makes them differ: the all-to-all carries
/// either bf16 or FP8 rows.
Expected<ops::WeightFormat> expert_format(const ModelConfig& config, ExpertLayout layout);
std::string layer_name(int64_t layer);                              ///< "model.layers.3"
std::string expert_name(const std::string& mlp, int64_t expert);    ///< "model.layers.3.mlp.experts.7"

}  // namespace hocket::model
