#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hocket::model {
namespace {

using Json = nlohmann::json;

// Upper limits keep every product of sizes in 63 bits; 16384 and 32 are the all-to-all's limits.
struct Range {
  int64_t low = 1, high = 0;
};
constexpr Range kLayers{1, 1024}, kHidden{16, 16384}, kHeads{1, 1024}, kHeadDim{16, 1024}, kExperts{1, 16384},
    kTopK{1, 32}, kIntermediate{16, 1 << 18}, kVocab{1, 1 << 30}, kPositions{1, 1 << 30}, kStep{1, 1 << 20},
    kTokenId{0, std::numeric_limits<int32_t>::max()};

/// "a.b" is key b of the map a. Later spellings mean the same.
using Spellings = std::initializer_list<const char*>;

/// A value in a message: long ones are cut.
std::string shown(const Json& value) {
  constexpr size_t kLongest = 80;
  const std::string text = value.dump();
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

/// Typed access to a JSON object. The first thing that is wrong is kept; what is returned after that is not used.
class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {}
  const std::optional<Failure>& failure() const { return failure_; }

  void refuse(Code code, const std::string& why) {
    if (!failure_) failure_ = Failure{code, fmt::format("{}: {}", where_, why)};
  }
  void refuse(const std::string& why) { refuse(Code::bad_input, why); }

  /// The value under any spelling; null counts as absent. Two spellings with different values are refused.
  const Json* find(Spellings spellings) {
    const Json* found = nullptr;
    const char* found_as = nullptr;
    for (const char* spelling : spellings) {
      const Json* value = at(spelling);
      if (value == nullptr) continue;
      if (found != nullptr && *found != *value) {
        refuse(fmt::format("{} {} and {} {} differ; remove one.", found_as, shown(*found), spelling, shown(*value)));
      }
      found = value;
      found_as = spelling;
    }
    return found;
  }

  int64_t integer(Spellings spellings, Range range, std::optional<int64_t> fallback = {}) {
    const Json* value = find(spellings);
    const char* name = *spellings.begin();
    if (value == nullptr) {
      if (!fallback) refuse(fmt::format("{} is missing", name));
      return fallback.value_or(range.low);
    }
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(range.high));
    if (fits && value->get<int64_t>() >= range.low && value->get<int64_t>() <= range.high) return value->get<int64_t>();
    refuse(fmt::format("{} is {}; expected an integer from {} to {}", name, shown(*value), range.low, range.high));
    return range.low;
  }

  double positive(Spellings spellings, double fallback) {
    const Json* value = find(spellings);
    if (value == nullptr) return fallback;
    if (value->is_number() && std::isfinite(value->get<double>()) && value->get<double>() > 0) return value->get<double>();
    refuse(fmt::format("{} is {}; expected a number above 0", *spellings.begin(), shown(*value)));
    return fallback;
  }

  std::optional<bool> flag(const char* key) {
    const Json* value = find({key});
    if (value == nullptr) return {};
    if (value->is_boolean()) return value->get<bool>();
    refuse(fmt::format("{} is {}; expected true or false", key, shown(*value)));
    return {};
  }

  std::string text(Spellings spellings, std::string fallback) {
    const Json* value = find(spellings);
    if (value == nullptr) return fallback;
    if (value->is_string()) return value->get<std::string>();
    refuse(fmt::format("{} is {}; expected a string", *spellings.begin(), shown(*value)));
    return fallback;
  }

  /// An array of integers, or one integer alone; empty if absent.
  std::vector<int64_t> integers(const char* key, Range range) {
    std::vector<int64_t> out;
    const Json* value = find({key});
    if (value == nullptr) return out;
    for (const Json& element : value->is_array() ? *value : Json::array({*value})) {
      if (element.is_number_integer() && element >= range.low && element <= range.high) {
        out.push_back(element.get<int64_t>());
      } else {
        refuse(fmt::format("{} holds {}; expected integers from {} to {}", key, shown(element), range.low, range.high));
      }
    }
    return out;
  }

  void strings(const char* key, std::vector<std::string>& out) {
    const Json* value = find({key});
    if (value == nullptr) return;
    if (!value->is_array()) return refuse(fmt::format("{} is {}; expected an array of strings", key, shown(*value)));
    for (const Json& element : *value) {
      if (!element.is_string()) return refuse(fmt::format("{} holds {}; expected strings", key, shown(element)));
      out.push_back(element.get<std::string>());
    }
  }

 private:
  const Json* at(std::string_view spelling) const {
    const Json* value = &json_;
    while (value != nullptr && !spelling.empty()) {
      const size_t dot = std::min(spelling.find('.'), spelling.size());
      const auto found = value->is_object() ? value->find(spelling.substr(0, dot)) : value->end();
      value = found == value->end() || found->is_null() ? nullptr : &*found;
      spelling.remove_prefix(std::min(dot + 1, spelling.size()));
    }
    return value;
  }

  const Json& json_;
  std::string where_;
  std::optional<Failure> failure_;
};

/// rope_parameters keyed by layer type become plain ones; refused unless all layer types agree.
Expected<Json> with_one_rope(Json json, const std::string& where) {
  const auto rope = json.find("rope_parameters");
  if (rope == json.end() || !rope->is_object() || rope->empty()) return json;
  if (!std::all_of(rope->begin(), rope->end(), [](const Json& entry) { return entry.is_object(); })) return json;
  const Json first = rope->front();
  for (const auto& [type, entry] : rope->items()) {
    if (entry == first) continue;
    return fail(Code::bad_input, fmt::format("{}: rope_parameters of {} is {}, of other layers {}: not supported",
                                             where, type, shown(entry), shown(first)));
  }
  *rope = first;
  return json;
}

void check_architecture(Reader& in) {
  if (in.find({"text_config"}) != nullptr) {
    in.refuse("text_config: multi-modal models are not supported. Supported: qwen3_moe.");
  }
  const std::string type = in.text({"model_type"}, "");
  if (type.empty()) in.refuse("model_type is missing");
  if (type != "qwen3_moe") in.refuse(fmt::format("model_type \"{}\" is not supported. Supported: qwen3_moe.", type));
  const std::string act = in.text({"hidden_act"}, "silu");
  if (act != "silu") in.refuse(fmt::format("hidden_act \"{}\" is not supported. Supported: silu.", act));
  const std::string dtype = in.text({"dtype", "torch_dtype"}, "bfloat16");
  if (dtype != "bfloat16") {
    in.refuse(fmt::format("dtype \"{}\" is not supported. Supported: bfloat16; convert the checkpoint.", dtype));
  }
  if (in.flag("attention_bias").value_or(false)) in.refuse("attention_bias true is not supported");
}

void check_positions(Reader& in) {
  if (in.flag("use_sliding_window").value_or(false)) {
    in.refuse("use_sliding_window true: sliding window attention is not supported");
  }
  std::vector<std::string> types;
  in.strings("layer_types", types);
  for (const std::string& type : types) {
    if (type != "full_attention") in.refuse(fmt::format("layer_types holds \"{}\". Supported: full_attention.", type));
  }
  const std::string rope =
      in.text({"rope_scaling.rope_type", "rope_scaling.type", "rope_parameters.rope_type", "rope_parameters.type"},
              in.find({"rope_scaling"}) == nullptr ? "default" : "unnamed");
  if (rope != "default") in.refuse(fmt::format("rope_scaling \"{}\" is not supported. Supported: default.", rope));
  if (in.positive({"partial_rotary_factor", "rope_parameters.partial_rotary_factor"}, 1) != 1) {
    in.refuse("partial_rotary_factor other than 1 is not supported");
  }
}

void read_sizes(Reader& in, ModelConfig& config) {
  config.model_type = in.text({"model_type"}, "");
  config.layers = in.integer({"num_hidden_layers"}, kLayers);
  config.hidden = in.integer({"hidden_size"}, kHidden);
  config.heads = in.integer({"num_attention_heads"}, kHeads);
  config.kv_heads = in.integer({"num_key_value_heads"}, kHeads, config.heads);
  config.head_dim = in.integer({"head_dim"}, kHeadDim, config.hidden / config.heads);
  config.experts = in.integer({"num_experts", "num_local_experts"}, kExperts);
  config.top_k = in.integer({"num_experts_per_tok"}, kTopK);
  config.moe_intermediate = in.integer({"moe_intermediate_size"}, kIntermediate);
  config.vocab = in.integer({"vocab_size"}, kVocab);
  config.max_positions = in.integer({"max_position_embeddings"}, kPositions);
  config.normalize_top_k = in.flag("norm_topk_prob").value_or(false);
  config.tied_embeddings = in.flag("tie_word_embeddings").value_or(false);
  config.rms_eps = static_cast<float>(in.positive({"rms_norm_eps"}, 1e-6));
  config.rope_theta = in.positive({"rope_theta", "rope_parameters.rope_theta"}, 10000);
}

/// Which layers are dense, and their width. Source: transformers, Qwen3MoeDecoderLayer.
void read_kinds(Reader& in, ModelConfig& config) {
  const auto dense = in.integers("mlp_only_layers", {0, kLayers.high});
  const int64_t step = in.integer({"decoder_sparse_step"}, kStep, 1);
  bool any_dense = false;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const bool listed = std::find(dense.begin(), dense.end(), layer) != dense.end();
    config.kinds.push_back(listed || (layer + 1) % step != 0 ? LayerKind::dense : LayerKind::moe);
    any_dense = any_dense || config.kinds.back() == LayerKind::dense;
  }
  config.intermediate =
      any_dense ? in.integer({"intermediate_size"}, kIntermediate) : in.integer({"intermediate_size"}, kIntermediate, 0);
}

void check_sizes(Reader& in, const ModelConfig& config) {
  if (config.heads % config.kv_heads != 0) {
    in.refuse(fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}", config.heads,
                          config.kv_heads));
  }
  if (config.top_k > config.experts) {
    in.refuse(fmt::format("num_experts_per_tok {} exceeds num_experts {}", config.top_k, config.experts));
  }
  const std::pair<const char*, int64_t> multiples_of_16[] = {{"hidden_size", config.hidden},
                                                             {"head_dim", config.head_dim},
                                                             {"moe_intermediate_size", config.moe_intermediate},
                                                             {"intermediate_size", config.intermediate}};
  for (const auto& [name, size] : multiples_of_16) {
    if (size % 16 != 0) in.refuse(fmt::format("{} {} is not a multiple of 16", name, size));
  }
}

/// FP8 with dynamic activations and 128x128 blocks is what is understood; everything else is refused by its name.
void read_quantization(Reader& in, ModelConfig& config) {
  const Json* section = in.find({"quantization_config", "compression_config"});
  if (section == nullptr) return;
  Reader quant(*section, "quantization_config");
  const std::string method = quant.text({"quant_method"}, quant.text({"quant_algo", "format"}, "unnamed"));
  const std::string kind = quant.text({"fmt"}, "e4m3");
  const std::string scheme = quant.text({"activation_scheme"}, "dynamic");
  const auto block = quant.integers("weight_block_size", {1, 1 << 20});
  const std::string supported = "is not supported. Supported: fp8 with e4m3, dynamic activations, 128x128 blocks.";
  if (method != "fp8") quant.refuse(fmt::format("quantization \"{}\" {}", method, supported));
  if (kind != "e4m3") quant.refuse(fmt::format("fp8 fmt \"{}\" {}", kind, supported));
  if (scheme != "dynamic") quant.refuse(fmt::format("fp8 activation_scheme \"{}\" {}", scheme, supported));
  if (block != std::vector<int64_t>{128, 128}) {
    const Json* given = quant.find({"weight_block_size"});
    quant.refuse(fmt::format("fp8 weight_block_size {} {}", given == nullptr ? "(none)" : shown(*given), supported));
  }
  quant.strings("modules_to_not_convert", config.unquantized);
  quant.strings("ignored_layers", config.unquantized);
  config.format = ops::WeightFormat::fp8_block;
  if (quant.failure()) in.refuse(quant.failure()->message);
}

void read_ids(Reader& in, ModelConfig& config) {
  for (int64_t id : in.integers("eos_token_id", kTokenId)) {
    const auto eos = static_cast<int32_t>(id);
    const bool known = std::find(config.eos_ids.begin(), config.eos_ids.end(), eos) != config.eos_ids.end();
    if (!known) config.eos_ids.push_back(eos);
  }
}

Expected<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) return fail(Code::missing, fmt::format("{}: cannot be read", path.string()));
  return text.str();
}

Expected<Json> parse_object(const std::string& text, const std::string& where) {
  try {
    Json json = Json::parse(text);
    if (json.is_object()) return json;
    return fail(Code::bad_input, where + ": not a JSON object");
  } catch (const Json::exception& error) {
    return fail(Code::bad_input, fmt::format("{}: {}", where, error.what()));
  }
}

}  // namespace

Expected<ModelConfig> parse_config(const std::string& text, const std::string& name) {
  const std::string where = name + "/config.json";
  auto json = parse_object(text, where).and_then([&](Json parsed) { return with_one_rope(std::move(parsed), where); });
  if (!json) return tl::unexpected(json.error());
  Reader in(*json, where);
  ModelConfig config;
  config.name = name;
  check_architecture(in);
  read_quantization(in, config);
  check_positions(in);
  read_sizes(in, config);
  read_kinds(in, config);
  check_sizes(in, config);
  read_ids(in, config);
  if (in.find({"bos_token_id"}) != nullptr) {
    config.bos_id = static_cast<int32_t>(in.integer({"bos_token_id"}, kTokenId));
  }
  if (in.failure()) return tl::unexpected(*in.failure());
  return config;
}

Expected<ModelConfig> load_config(const std::filesystem::path& folder) {
  const auto text = read_text(folder / "config.json");
  if (!text) return tl::unexpected(text.error());
  // "models/tiny/" has an empty last part.
  const auto last = folder.has_filename() ? folder : folder.parent_path();
  auto config = parse_config(*text, last.filename().string());
  const auto generation = folder / "generation_config.json";
  if (!config || !std::filesystem::exists(generation)) return config;
  const std::string where = config->name + "/generation_config.json";
  const auto json = read_text(generation).and_then([&](const std::string& read) { return parse_object(read, where); });
  if (!json) return tl::unexpected(json.error());
  Reader in(*json, where);
  read_ids(in, *config);
  if (in.failure()) return tl::unexpected(*in.failure());
  return config;
}

namespace {

int64_t swiglu_elements(int64_t hidden, int64_t intermediate) { return 3 * hidden * intermediate; }

/// Everything but the feed-forward weights of the experts and dense layers.
int64_t shared_parameters(const ModelConfig& c) {
  const int64_t attention = c.hidden * c.head_dim * (2 * c.heads + 2 * c.kv_heads) + 2 * c.head_dim;
  const int64_t norms = 2 * c.hidden;
  return c.layers * (attention + norms) + c.hidden + c.vocab * c.hidden * (c.tied_embeddings ? 1 : 2);
}

int64_t feed_forward(const ModelConfig& c, int64_t experts) {
  int64_t sum = 0;
  for (LayerKind kind : c.kinds) {
    sum += kind == LayerKind::dense
               ? swiglu_elements(c.hidden, c.intermediate)
               : c.experts * c.hidden + experts * swiglu_elements(c.hidden, c.moe_intermediate);
  }
  return sum;
}

}  // namespace

int64_t ModelConfig::total_parameters() const { return shared_parameters(*this) + feed_forward(*this, experts); }
int64_t ModelConfig::active_parameters() const { return shared_parameters(*this) + feed_forward(*this, top_k); }
int64_t ModelConfig::kv_bytes_per_token() const { return layers * 2 * kv_heads * head_dim * size_of(device::DType::bf16); }

}  // namespace hocket::model
