// A checkpoint's config.json in the engine's words, from either spelling (classic, transformers 5).
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/operand.h"

namespace hocket::model {

enum class LayerKind : uint8_t { moe, dense };

struct ModelConfig {
  std::string model_type;  ///< "qwen3_moe"
  std::string name;        ///< folder name, for messages
  int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t experts = 0, top_k = 0, moe_intermediate = 0, intermediate = 0;
  int64_t vocab = 0, max_positions = 0;
  bool normalize_top_k = false, tied_embeddings = false;
  float rms_eps = 1e-6F;
  double rope_theta = 10000;
  std::vector<LayerKind> kinds;  ///< per layer
  ops::WeightFormat format = ops::WeightFormat::bf16;  ///< of attention and expert projections
  std::vector<std::string> unquantized;                ///< modules_to_not_convert, ignored_layers
  std::vector<int32_t> eos_ids;  ///< union of config.json and generation_config.json
  std::optional<int32_t> bos_id;
  int64_t total_parameters() const;   ///< computed from the shapes
  int64_t active_parameters() const;  ///< per token, embedding and head included
  int64_t kv_bytes_per_token() const;
};

/// Reads config.json and, if present, generation_config.json of a Hugging Face folder. Fails with one line that names
/// the key and both values seen, or the architecture or quantisation that is not supported.
Expected<ModelConfig> load_config(const std::filesystem::path& folder);
Expected<ModelConfig> parse_config(const std::string& json, const std::string& name);

}  // namespace hocket::model
