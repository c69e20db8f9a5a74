#include "model/manifest.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hocket::model {
namespace {

using device::DType;
using ops::WeightFormat;

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

int64_t blocks(int64_t size) { return (size + quant::kScaleBlock - 1) / quant::kScaleBlock; }

/// Fused tensors are named after the projection itself.
bool is_fused_module(const std::string& module) {
  return module.ends_with(".experts.gate_up_proj") || module.ends_with(".experts.down_proj");
}

bool accepts(Role role, std::optional<DType> stored) {
  if (!stored) return false;
  switch (role) {
    case Role::vector: return stored == DType::bf16 || stored == DType::f16 || stored == DType::f32;
    case Role::bf16: return stored == DType::bf16;
    case Role::fp8: return stored == DType::e4m3;
    case Role::scale: return stored == DType::f32 || stored == DType::bf16 || stored == DType::e8m0;
  }
  return false;
}

std::string_view accepted(Role role) {
  switch (role) {
    case Role::vector: return "BF16, F16 or F32";
    case Role::bf16: return "BF16";
    case Role::fp8: return "F8_E4M3";
    case Role::scale: return "F32, BF16 or F8_E8M0";
  }
  return "";
}

/// "2 tensors are missing: "a", "b"", with the first five.
std::string listing(std::vector<std::string> names, std::string_view what) {
  if (names.empty()) return {};
  constexpr size_t kShown = 5;
  std::sort(names.begin(), names.end());
  const size_t count = names.size();
  names.resize(std::min(count, kShown));
  return fmt::format("{} tensor{} {} {}: {}{}", count, count == 1 ? "" : "s", count == 1 ? "is" : "are", what,
                     fmt::join(names, ", "), count > kShown ? ", ..." : "");
}

/// Left over in published checkpoints and computed here.
bool is_ignored(const ModelConfig& config, const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || (config.tied_embeddings && name == kHead);
}

std::vector<std::string> expert_modules(const std::string& mlp, int64_t experts, ExpertLayout layout) {
  if (layout == ExpertLayout::fused) return {mlp + ".experts.gate_up_proj", mlp + ".experts.down_proj"};
  std::vector<std::string> modules;
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (const char* projection : {".gate_proj", ".up_proj", ".down_proj"}) {
      modules.push_back(expert_name(mlp, expert) + projection);
    }
  }
  return modules;
}

}  // namespace

int64_t TensorSpec::elements() const {
  int64_t product = 1;
  for (int64_t extent : shape) product *= extent;
  return product;
}

std::string layer_name(int64_t layer) { return fmt::format("model.layers.{}", layer); }
std::string expert_name(const std::string& mlp, int64_t expert) { return fmt::format("{}.experts.{}", mlp, expert); }

std::string matrix_name(const std::string& module, ExpertLayout layout) {
  return layout == ExpertLayout::fused && is_fused_module(module) ? module : module + ".weight";
}
std::string scale_name(const std::string& module, ExpertLayout layout) {
  return matrix_name(module, layout) + "_scale_inv";
}

WeightFormat format_of(const ModelConfig& config, const std::string& module) {
  const bool excluded = std::any_of(config.unquantized.begin(), config.unquantized.end(), [&](const std::string& name) {
    return module.starts_with(name) && (module.size() == name.size() || module[name.size()] == '.');
  });
  return excluded ? WeightFormat::bf16 : config.format;
}

Expected<WeightFormat> expert_format(const ModelConfig& config, ExpertLayout layout) {
  std::optional<WeightFormat> format;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (config.kinds[static_cast<size_t>(layer)] == LayerKind::dense) continue;
    for (const std::string& module : expert_modules(layer_name(layer) + ".mlp", config.experts, layout)) {
      const WeightFormat own = format_of(config, module);
      if (format.value_or(own) != own) {
        return fail(Code::bad_input, fmt::format("{}: modules_to_not_convert makes {} differ from the experts before "
                                                 "it; experts must be all FP8 or all BF16", config.name, module));
      }
      format = own;
    }
  }
  return format.value_or(config.format);
}

Manifest::Manifest(const ModelConfig& config, ExpertLayout layout) : layout_(layout) {
  add({kEmbedding, Role::bf16, {config.vocab, config.hidden}});
  add({"model.norm.weight", Role::vector, {config.hidden}});
  if (!config.tied_embeddings) add({kHead, Role::bf16, {config.vocab, config.hidden}});
  for (int64_t index = 0; index < config.layers; ++index) {
    const std::string layer = layer_name(index);
    const std::string mlp = layer + ".mlp";
    add_attention(config, layer);
    add({layer + ".post_attention_layernorm.weight", Role::vector, {config.hidden}});
    if (config.kinds[static_cast<size_t>(index)] == LayerKind::moe) {
      add({mlp + ".gate.weight", Role::vector, {config.experts, config.hidden}});
      add_experts(config, mlp);
    } else {
      add_matrix(config, mlp + ".gate_proj", {config.intermediate, config.hidden}, kNoExpert);
      add_matrix(config, mlp + ".up_proj", {config.intermediate, config.hidden}, kNoExpert);
      add_matrix(config, mlp + ".down_proj", {config.hidden, config.intermediate}, kNoExpert);
    }
  }
}

void Manifest::add_attention(const ModelConfig& config, const std::string& layer) {
  const std::string attention = layer + ".self_attn";
  const int64_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  add({layer + ".input_layernorm.weight", Role::vector, {config.hidden}});
  add({attention + ".q_norm.weight", Role::vector, {config.head_dim}});
  add({attention + ".k_norm.weight", Role::vector, {config.head_dim}});
  add_matrix(config, attention + ".q_proj", {q, config.hidden}, kNoExpert);
  add_matrix(config, attention + ".k_proj", {kv, config.hidden}, kNoExpert);
  add_matrix(config, attention + ".v_proj", {kv, config.hidden}, kNoExpert);
  add_matrix(config, attention + ".o_proj", {config.hidden, q}, kNoExpert);
}

void Manifest::add_experts(const ModelConfig& config, const std::string& mlp) {
  const int64_t hidden = config.hidden, width = config.moe_intermediate;
  if (layout_ == ExpertLayout::fused) {
    add_matrix(config, mlp + ".experts.gate_up_proj", {config.experts, 2 * width, hidden}, kAllExperts);
    add_matrix(config, mlp + ".experts.down_proj", {config.experts, hidden, width}, kAllExperts);
    return;
  }
  for (int64_t expert = 0; expert < config.experts; ++expert) {
    const std::string module = expert_name(mlp, expert);
    add_matrix(config, module + ".gate_proj", {width, hidden}, expert);
    add_matrix(config, module + ".up_proj", {width, hidden}, expert);
    add_matrix(config, module + ".down_proj", {hidden, width}, expert);
  }
}

void Manifest::add_matrix(const ModelConfig& config, const std::string& module, std::vector<int64_t> shape,
                          int64_t expert) {
  const bool fp8 = format_of(config, module) == WeightFormat::fp8_block;
  std::vector<int64_t> grid = shape;
  for (size_t axis = grid.size() - 2; axis < grid.size(); ++axis) grid[axis] = blocks(grid[axis]);
  add({matrix_name(module, layout_), fp8 ? Role::fp8 : Role::bf16, std::move(shape), expert});
  if (fp8) add({scale_name(module, layout_), Role::scale, std::move(grid), expert});
}

void Manifest::add(TensorSpec spec) {
  index_.emplace(spec.name, specs_.size());
  specs_.push_back(std::move(spec));
}

const TensorSpec& Manifest::at(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) throw InvariantError(fmt::format("no tensor {} in the model", name));
  return specs_[found->second];
}

Expected<void> Manifest::check(const Checkpoint& checkpoint, const ModelConfig& config) const {
  std::vector<std::string> missing, unexpected;
  for (const TensorSpec& spec : specs_) {
    const StoredTensor* stored = checkpoint.find(spec.name);
    if (stored == nullptr) {
      missing.push_back(spec.name);
      continue;
    }
    const TensorInfo& info = *stored->info;
    if (info.shape == spec.shape && accepts(spec.role, info.dtype)) continue;
    return fail(Code::bad_input,
                fmt::format("{}: tensor {} at byte {} is {}, but config.json of {} asks for {} {}", stored->file->name(),
                            spec.name, info.begin, info.str(), config.name, shape_text(spec.shape),
                            accepted(spec.role)));
  }
  for (const auto& [name, stored] : checkpoint.tensors()) {
    if (!contains(name) && !is_ignored(config, name)) unexpected.push_back(quote(name));
  }
  if (missing.empty() && unexpected.empty()) return {};
  const std::string gap = missing.empty() || unexpected.empty() ? "" : "; ";
  return fail(missing.empty() ? Code::bad_input : Code::missing,
              fmt::format("{}: {}{}{} (config.json and the weights disagree, or a shard is incomplete)", config.name,
                          listing(missing, "missing"), gap, listing(unexpected, "unexpected")));
}

ExpertLayout layout_of(const Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.tensors();
  const bool fused = std::any_of(tensors.begin(), tensors.end(),
                                 [](const auto& entry) { return is_fused_module(entry.first); });
  return fused ? ExpertLayout::fused : ExpertLayout::per_expert;
}

}  // namespace hocket::model
