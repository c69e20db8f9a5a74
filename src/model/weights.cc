#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

namespace hocket::model {
namespace {

using device::DType;
using device::TensorView;
using ops::PackedWeight;
using ops::WeightFormat;

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

/// A matrix as stored, with its FP8 scales.
struct Part {
  StoredWeight matrix, scales;
  int64_t rows() const { return matrix.view.dim(0); }
  int64_t cols() const { return matrix.view.dim(1); }
  WeightFormat format() const {
    return matrix.view.dtype == DType::e4m3 ? WeightFormat::fp8_block : WeightFormat::bf16;
  }
};

/// Source: transformers, Qwen3MoeRotaryEmbedding; f64 and one rounding.
void fill_inv_freq(float* out, int64_t head_dim, double theta) {
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    out[i] = static_cast<float>(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
}

class Loader {
 public:
  Loader(const ModelConfig& config, const Manifest& manifest, const LoadOptions& options, TensorSource& source)
      : config_(config), manifest_(manifest), options_(options), source_(source) {}

  Expected<Weights> load() {
    total_ = bytes_to_read();
    out_.final_norm = vector("model.norm.weight");
    out_.inv_freq = out_.memory.make(DType::f32, {config_.head_dim / 2});
    fill_inv_freq(out_.inv_freq.as<float>(), config_.head_dim, config_.rope_theta);
    load_embeddings();
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string name = layer_name(layer);
      LayerWeights& weights = out_.layers.emplace_back();
      weights.attention = attention(name);
      if (config_.kinds[static_cast<size_t>(layer)] == LayerKind::moe) {
        weights.feed_forward = moe(name);
      } else {
        weights.feed_forward = dense(name);
      }
    }
    if (auto done = source_.finish(); !done) return tl::unexpected(done.error());
    if (failure_) return tl::unexpected(*failure_);
    return std::move(out_);
  }

 private:
  int64_t first_expert() const { return options_.rank * local_experts(); }
  int64_t local_experts() const { return config_.experts / options_.ranks; }
  bool is_local(int64_t expert) const {
    return expert < 0 || (expert >= first_expert() && expert < first_expert() + local_experts());
  }

  int64_t bytes_to_read() const {
    int64_t sum = 0;
    for (const TensorSpec& spec : manifest_.specs()) {
      if (!is_local(spec.expert)) continue;
      const int64_t width = spec.role == Role::fp8 ? 1 : spec.role == Role::scale ? 4 : 2;
      sum += spec.elements() * width / (spec.expert == kAllExperts ? options_.ranks : 1);
    }
    return sum;
  }

  StoredWeight read(const std::string& name, std::optional<int64_t> slice = {}) {
    StoredWeight weight = source_.read(manifest_.at(name), slice);
    done_ = std::min(done_ + weight.view.bytes(), total_);  // an estimate: a vector may be stored wider than bf16
    if (options_.progress) options_.progress(done_, total_);
    return weight;
  }

  TensorView vector(const std::string& name) {
    const StoredWeight stored = read(name);
    TensorView wide = stored.view;
    wide.dtype = DType::f32;
    wide.data = out_.memory.take(wide.bytes());  // wide.bytes() counts f32
    widen(stored.view, wide.as<float>());
    return wide;
  }

  Part part(const std::string& module, std::optional<int64_t> slice = {}) {
    const std::string name = matrix_name(module, manifest_.layout());
    Part part{read(name, slice), {}};
    if (part.format() == WeightFormat::bf16) return part;
    const std::string scales_name = scale_name(module, manifest_.layout());
    const StoredWeight stored = read(scales_name, slice);
    const int64_t grid[] = {stored.view.dim(0), stored.view.dim(1)};
    part.scales = allocate_weight(DType::f32, grid);
    widen(stored.view, part.scales.view.as<float>());
    check_codes(name, part.matrix);
    check_scales(scales_name, stored.file, part.scales.view);
    return part;
  }

  void check_codes(const std::string& name, const StoredWeight& weight) {
    const auto* codes = weight.view.as<quant::E4m3>();
    const auto* end = codes + weight.view.elements();
    const auto* bad = std::find_if(codes, end, [](quant::E4m3 code) { return is_nan(code); });
    if (bad != end) refuse(fmt::format("{}: tensor {} holds the FP8 code NaN at element {}", weight.file, name, bad - codes));
  }
  void check_scales(const std::string& name, std::string_view file, const TensorView& view) {
    const float* scales = view.as<float>();
    const float* end = scales + view.elements();
    const float* bad = std::find_if(scales, end, [](float scale) { return !std::isfinite(scale); });
    if (bad != end) refuse(fmt::format("{}: tensor {} holds {} at element {}", file, name, *bad, bad - scales));
  }
  void refuse(std::string why) {
    if (!failure_) failure_ = Failure{Code::bad_input, std::move(why)};
  }

  /// FP8 matrices whose sides are not multiples of 128 grow by zero codes, so that gate and up can stand below each other
  /// without sharing a scale block. Exact: the new intermediate columns are silu(0) * 0 = 0 and add nothing.
  static Part padded(Part part, int64_t rows, int64_t cols) {
    if (part.format() == WeightFormat::bf16 || (rows == part.rows() && cols == part.cols())) return part;
    const int64_t shape[] = {rows, cols};
    StoredWeight wide = allocate_weight(DType::e4m3, shape);
    std::memset(wide.view.data, 0, static_cast<size_t>(wide.view.bytes()));
    for (int64_t row = 0; row < part.rows(); ++row) {
      std::memcpy(wide.view.data + row * cols, part.matrix.view.data + row * part.cols(),
                  static_cast<size_t>(part.cols()));
    }
    part.matrix = std::move(wide);
    return part;
  }

  PackedWeight pack(std::span<const Part> parts) {
    if (failure_) return {};  // damaged codes have been named; ops::pack would throw on them
    int64_t rows = 0;
    std::vector<ops::WeightPart> views;
    for (const Part& part : parts) {
      if (part.format() != parts[0].format()) {
        refuse(fmt::format("{}: gate_proj and up_proj of a layer must be both FP8 or both BF16", config_.name));
        return {};
      }
      rows += part.rows();
      views.push_back({part.matrix.view, part.scales.view});
    }
    const int64_t cols = parts[0].cols();
    const WeightFormat format = parts[0].format();
    std::byte* memory = out_.memory.take(ops::packed_bytes(rows, cols, format));
    float* scales = nullptr;
    if (format == WeightFormat::fp8_block) {
      const int64_t blocks = round_up(rows, quant::kScaleBlock) / quant::kScaleBlock *
                             (round_up(cols, quant::kScaleBlock) / quant::kScaleBlock);
      scales = out_.memory.make(DType::f32, {blocks}).as<float>();
    }
    return ops::pack(views, memory, scales);
  }
  PackedWeight pack(Part part) { return pack(std::span<const Part>(&part, 1)); }

  PackedWeight pack_gate_up(Part gate, Part up) {
    const int64_t rows = round_up(gate.rows(), quant::kScaleBlock), cols = gate.cols();
    const Part parts[] = {padded(std::move(gate), rows, cols), padded(std::move(up), rows, cols)};
    return pack(parts);
  }
  PackedWeight pack_down(Part down) {
    const int64_t rows = down.rows(), cols = round_up(down.cols(), quant::kScaleBlock);
    return pack(padded(std::move(down), rows, cols));
  }

  void load_embeddings() {
    Part embedding{read("model.embed_tokens.weight"), {}};
    out_.embedding = out_.memory.make(DType::bf16, {config_.vocab, config_.hidden});
    std::memcpy(out_.embedding.data, embedding.matrix.view.data, static_cast<size_t>(out_.embedding.bytes()));
    out_.head = pack(config_.tied_embeddings ? std::move(embedding) : Part{read("lm_head.weight"), {}});
  }

  AttentionWeights attention(const std::string& layer) {
    const std::string name = layer + ".self_attn";
    AttentionWeights weights;
    weights.norm = vector(layer + ".input_layernorm.weight");
    weights.q_norm = vector(name + ".q_norm.weight");
    weights.k_norm = vector(name + ".k_norm.weight");
    Part parts[] = {part(name + ".q_proj"), part(name + ".k_proj"), part(name + ".v_proj")};
    const auto joins = [&](const Part& one) {
      const bool whole = one.format() == WeightFormat::bf16 || one.rows() % quant::kScaleBlock == 0;
      return whole && one.format() == parts[0].format();
    };
    if (std::all_of(std::begin(parts), std::end(parts), joins)) {
      weights.qkv.push_back(pack(parts));
    } else {
      for (Part& one : parts) weights.qkv.push_back(pack(std::move(one)));
    }
    weights.o = pack(part(name + ".o_proj"));
    return weights;
  }

  MoeWeights moe(const std::string& layer) {
    const std::string mlp = layer + ".mlp";
    MoeWeights weights;
    weights.norm = vector(layer + ".post_attention_layernorm.weight");
    weights.gate = vector(mlp + ".gate.weight");
    for (int64_t expert = first_expert(); expert < first_expert() + local_experts(); ++expert) {
      if (manifest_.layout() == ExpertLayout::fused) {
        weights.gate_up.push_back(pack(part(mlp + ".experts.gate_up_proj", expert)));
        weights.down.push_back(pack(part(mlp + ".experts.down_proj", expert)));
        continue;
      }
      const std::string name = expert_name(mlp, expert);
      weights.gate_up.push_back(pack_gate_up(part(name + ".gate_proj"), part(name + ".up_proj")));
      weights.down.push_back(pack_down(part(name + ".down_proj")));
    }
    return weights;
  }

  DenseWeights dense(const std::string& layer) {
    const std::string mlp = layer + ".mlp";
    DenseWeights weights;
    weights.norm = vector(layer + ".post_attention_layernorm.weight");
    weights.gate_up = pack_gate_up(part(mlp + ".gate_proj"), part(mlp + ".up_proj"));
    weights.down = pack_down(part(mlp + ".down_proj"));
    return weights;
  }

  const ModelConfig& config_;
  const Manifest& manifest_;
  const LoadOptions& options_;
  TensorSource& source_;
  Weights out_;
  int64_t done_ = 0, total_ = 0;
  std::optional<Failure> failure_;  // the first; reading goes on, so that loading has one shape
};

}  // namespace

std::byte* WeightMemory::take(int64_t bytes) {
  constexpr int64_t kBlock = 64 << 20;  // reserved, not used, until it is written
  const int64_t rounded = round_up(bytes, 64);
  if (rounded > left_) {
    left_ = std::max(rounded, kBlock);
    blocks_.emplace_back(left_);
  }
  std::byte* memory = blocks_.back().data() + (blocks_.back().size() - left_);
  left_ -= rounded;
  bytes_ += rounded;
  return memory;
}

TensorView WeightMemory::make(DType dtype, std::initializer_list<int64_t> extents) {
  TensorView view(nullptr, dtype, extents);
  view.data = take(view.bytes());
  return view;
}

Expected<Weights> load_weights(const ModelConfig& config, const Manifest& manifest, const LoadOptions& options,
                               TensorSource& source) {
  return Loader(config, manifest, options, source).load();
}

}  // namespace hocket::model
