#include "sim/model_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace hocket::sim {
namespace {

double real(int64_t value) { return static_cast<double>(value); }

std::vector<ModelSpec> presets() {
  ModelSpec small{.name = "qwen3-30b-a3b", .layers = 48, .hidden = 2048, .vocab = 151936};
  small.heads = 32;
  small.kv_heads = 4;
  small.head_dim = 128;
  small.experts = 128;
  small.top_k = 8;
  small.expert_width = 768;
  small.expert_format = small.dense_format = small.wire = Format::fp8;
  ModelSpec large = small;
  large.name = "qwen3-235b-a22b";
  large.layers = 94;
  large.hidden = 4096;
  large.heads = 64;
  large.expert_width = 1536;
  ModelSpec deepseek{.name = "deepseek-v3", .layers = 61, .dense_layers = 3, .dense_width = 18432};
  deepseek.hidden = 7168;
  deepseek.vocab = 129280;
  deepseek.heads = deepseek.kv_heads = 128;
  deepseek.head_dim = 192;
  deepseek.q_lora = 1536;
  deepseek.kv_lora = 512;
  deepseek.nope_dim = deepseek.v_dim = 128;
  deepseek.rope_dim = 64;
  deepseek.experts = 256;
  deepseek.top_k = 8;
  deepseek.expert_width = deepseek.shared_width = 2048;
  deepseek.groups = 8;
  deepseek.top_groups = 4;
  deepseek.expert_format = deepseek.dense_format = deepseek.wire = Format::fp8;
  ModelSpec r1 = deepseek;
  r1.name = "deepseek-r1";
  ModelSpec oss{.name = "gpt-oss-120b", .layers = 36, .hidden = 2880, .vocab = 201088};
  oss.heads = 64;
  oss.kv_heads = 8;
  oss.head_dim = 64;
  oss.window = 128;
  oss.experts = 128;
  oss.top_k = 4;
  oss.expert_width = 2880;
  oss.expert_format = Format::mxfp4;
  return {small, large, deepseek, r1, oss};
}

using Json = nlohmann::json;

/// The first of the keys that holds an integer; `otherwise` if none does.
int64_t integer(const Json& json, std::initializer_list<const char*> keys, int64_t otherwise = 0) {
  for (const char* key : keys) {
    if (json.contains(key) && json[key].is_number_integer()) return json[key].get<int64_t>();
  }
  return otherwise;
}

void read_attention(const Json& json, ModelSpec& spec) {
  spec.heads = integer(json, {"num_attention_heads"});
  spec.kv_heads = integer(json, {"num_key_value_heads"}, spec.heads);
  spec.head_dim = integer(json, {"head_dim"}, spec.heads > 0 ? spec.hidden / spec.heads : 0);
  spec.q_lora = integer(json, {"q_lora_rank"});
  spec.kv_lora = integer(json, {"kv_lora_rank"});
  spec.nope_dim = integer(json, {"qk_nope_head_dim"});
  spec.rope_dim = integer(json, {"qk_rope_head_dim"});
  spec.v_dim = integer(json, {"v_head_dim"});
  const bool windows = json.contains("layer_types") && json["layer_types"].is_array() &&
                       std::count(json["layer_types"].begin(), json["layer_types"].end(),
                                  Json("sliding_attention")) > 0;
  if (windows) spec.window = integer(json, {"sliding_window"});
}

void read_experts(const Json& json, ModelSpec& spec) {
  spec.experts = integer(json, {"num_experts", "n_routed_experts", "num_local_experts"});
  spec.top_k = integer(json, {"num_experts_per_tok", "experts_per_token"});
  spec.dense_width = integer(json, {"intermediate_size"});
  spec.expert_width = integer(json, {"moe_intermediate_size"}, spec.dense_width);
  spec.dense_layers = integer(json, {"first_k_dense_replace"});
  spec.groups = std::max<int64_t>(1, integer(json, {"n_group"}, 1));
  spec.top_groups = std::max<int64_t>(1, integer(json, {"topk_group"}, 1));
  spec.shared_width = integer(json, {"shared_expert_intermediate_size"},
                              integer(json, {"n_shared_experts"}) * spec.expert_width);
}

void read_format(const Json& json, ModelSpec& spec) {
  if (!json.contains("quantization_config")) return;
  const Json& quantization = json["quantization_config"];
  const std::string method = quantization.value("quant_method", "");
  if (method == "mxfp4") spec.expert_format = Format::mxfp4;
  if (method == "fp8") spec.expert_format = spec.dense_format = Format::fp8;
  if (method == "fp8" && spec.hidden % 128 == 0) spec.wire = Format::fp8;
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

}  // namespace

double bytes_of(Format format) {
  switch (format) {
    case Format::bf16:
      return 2;
    case Format::fp8:
      return 1 + 4.0 / (128 * 128);
    case Format::mxfp4:
      return 0.5 + 1.0 / 32;
  }
  return 2;
}

const char* name(Format format) {
  return format == Format::bf16 ? "bf16" : format == Format::fp8 ? "fp8" : "mxfp4";
}

double ModelSpec::attention_weights() const {
  const double h = real(hidden), n = real(heads);
  if (!mla()) {
    const double d = real(head_dim);
    return h * d * (n + 2 * real(kv_heads)) + n * d * h;
  }
  const double queries = n * real(nope_dim + rope_dim);
  const double q = q_lora > 0 ? h * real(q_lora) + real(q_lora) * queries : h * queries;
  return q + h * real(kv_lora + rope_dim) + real(kv_lora) * n * real(nope_dim + v_dim) +
         n * real(v_dim) * h;
}

double ModelSpec::core_flops(Form form) const {
  if (!mla()) return 4 * real(heads * head_dim);
  if (form == Form::prefill) return 2 * real(heads * (nope_dim + rope_dim + v_dim));
  return 2 * real(heads * (2 * kv_lora + rope_dim));
}

double ModelSpec::expert_weights() const { return 3 * real(hidden * expert_width); }

double ModelSpec::kv_bytes() const {
  return mla() ? 2 * real(kv_lora + rope_dim) : 4 * real(kv_heads * head_dim);
}

double ModelSpec::dispatch_row_bytes() const {
  const double h = real(hidden);
  return wire == Format::fp8 ? h + 4 * std::ceil(h / 128) : 2 * h;
}

double ModelSpec::parameters() const {
  const double moe = real(layers - dense_layers);
  return real(layers) * attention_weights() +
         moe * (real(experts) * expert_weights() + real(hidden * (experts + 3 * shared_width))) +
         real(dense_layers * 3 * hidden * dense_width) + 2 * real(vocab * hidden);
}

double ModelSpec::weight_bytes(int ranks) const {
  const double routed = real((layers - dense_layers) * experts) * expert_weights();
  const double dense = parameters() - routed - 2 * real(vocab * hidden);
  return routed * bytes_of(expert_format) / ranks + dense * bytes_of(dense_format) +
         4 * real(vocab * hidden);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const ModelSpec& one : presets()) names.push_back(one.name);
  return names;
}

Expected<ModelSpec> load_model_spec(const std::string& name_or_path) {
  for (ModelSpec& one : presets()) {
    if (one.name == lower(name_or_path)) return std::move(one);
  }
  std::filesystem::path path = name_or_path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) path /= "config.json";
  if (!std::filesystem::is_regular_file(path, ignored))
    return fail(
        Code::config,
        fmt::format("model {}: no preset, no config.json and no folder with one. Presets: {}.",
                    name_or_path, fmt::join(model_names(), ", ")));
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string called = path.filename() == "config.json" ? path.parent_path().filename().string()
                                                        : path.stem().string();
  return parse_model_spec(text.str(), called.empty() ? path.string() : called);
}

Expected<ModelSpec> parse_model_spec(const std::string& text, const std::string& name) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return fail(Code::config, fmt::format("model {}: its config.json is not a JSON object.", name));
  if (json.contains("text_config") && json["text_config"].is_object()) {
    Json inner = json["text_config"];
    json = std::move(inner);
  }
  ModelSpec spec{.name = name};
  spec.layers = integer(json, {"num_hidden_layers"});
  spec.hidden = integer(json, {"hidden_size"});
  spec.vocab = integer(json, {"vocab_size"});
  read_attention(json, spec);
  read_experts(json, spec);
  read_format(json, spec);
  if (spec.experts < 2)
    return fail(Code::config, fmt::format("model {} has no expert layers; overlap needs their "
                                          "exchange. Use a mixture-of-experts model.",
                                          name));
  for (const auto& [value, key] : {std::pair{spec.layers, "num_hidden_layers"},
                                   {spec.hidden, "hidden_size"},
                                   {spec.vocab, "vocab_size"},
                                   {spec.heads, "num_attention_heads"},
                                   {spec.top_k, "num_experts_per_tok"},
                                   {spec.expert_width, "moe_intermediate_size"}}) {
    if (value < 1)
      return fail(Code::config, fmt::format("model {}: its config.json lacks {}.", name, key));
  }
  return spec;
}

}  // namespace hocket::sim
