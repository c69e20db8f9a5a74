// What a model's layers cost, from its public configuration: presets and any config.json.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace hocket::sim {

enum class Format : uint8_t { bf16, fp8, mxfp4 };
double bytes_of(Format format);  ///< a weight, scales included
const char* name(Format format);

/// Shapes of a mixture-of-experts transformer.
struct ModelSpec {
  std::string name;
  int64_t layers = 0, dense_layers = 0,
          dense_width = 0;  ///< the first `dense_layers` have no experts
  int64_t hidden = 0, vocab = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t q_lora = 0, kv_lora = 0, nope_dim = 0, rope_dim = 0, v_dim = 0;  ///< kv_lora > 0: MLA
  int64_t window = 0;  ///< keys that every other layer sees; 0: all see all
  int64_t experts = 0, top_k = 0, expert_width = 0;
  int64_t groups = 1, top_groups = 1;  ///< experts are chosen from the best groups
  int64_t shared_width = 0;            ///< of shared experts together
  Format expert_format = Format::bf16, dense_format = Format::bf16;
  Format wire = Format::bf16;  ///< of dispatched rows

  bool mla() const { return kv_lora > 0; }
  /// Weights of a layer's attention projections; FLOPs a token are twice that.
  double attention_weights() const;
  /// FLOPs of one query with one key; absorbed: the form that decodes use.
  enum class Form : uint8_t { prefill, decode };
  double core_flops(Form form) const;
  double expert_weights() const;      ///< of one expert
  double kv_bytes() const;            ///< a token and layer
  double dispatch_row_bytes() const;  ///< one FP8 scale per 128 columns included
  double combine_row_bytes() const { return 2.0 * static_cast<double>(hidden); }
  double parameters() const;
  double weight_bytes(int ranks) const;  ///< on one of `ranks` that share the experts
};

std::vector<std::string> model_names();
/// A preset's name (any case), a config.json, or a folder that holds one. Fails (config) with one
/// line naming what is missing: the file, the key, or experts.
Expected<ModelSpec> load_model_spec(const std::string& name_or_path);
Expected<ModelSpec> parse_model_spec(const std::string& json, const std::string& name);

}  // namespace hocket::sim
