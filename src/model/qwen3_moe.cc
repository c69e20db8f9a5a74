// Qwen3-MoE: weights and forward pass. Source: modeling_qwen3_moe.py of transformers; docs/models.md.
#include <algorithm>

#include <fmt/format.h>

#include "model/layers/attention.h"
#include "model/layers/dense.h"
#include "model/layers/moe.h"

namespace hocket::model {
namespace {

using device::Lane;
using ops::WeightFormat;

class Qwen3Moe : public Model {
 public:
  Qwen3Moe(const ModelConfig& config, Weights weights, WeightFormat experts)
      : config_(config), weights_(std::move(weights)), experts_(experts) {
    const auto normalize = config.normalize_top_k ? ops::Normalize::on : ops::Normalize::off;
    for (const LayerWeights& own : weights_.layers) {
      Layer& layer = layers_.emplace_back(Attention(own.attention, weights_.inv_freq, config.rms_eps));
      if (const auto* moe = std::get_if<MoeWeights>(&own.feed_forward)) layer.moe.emplace(*moe, normalize, config.rms_eps);
      if (const auto* mlp = std::get_if<DenseWeights>(&own.feed_forward)) layer.dense.emplace(*mlp, config.rms_eps);
    }
  }

  const ModelConfig& config() const override { return config_; }
  int64_t weight_bytes() const override { return weights_.memory.bytes(); }

  comm::Config exchange_config() const override {
    comm::Config exchange;
    exchange.experts = static_cast<int>(config_.experts);
    exchange.top_k = static_cast<int>(config_.top_k);
    exchange.hidden = static_cast<int>(config_.hidden);
    exchange.wire = experts_ == WeightFormat::fp8_block ? comm::Wire::fp8_f32 : comm::Wire::bf16;
    return exchange;
  }

  int64_t arena_bytes(int64_t tokens, int64_t logit_rows, const comm::Config& a2a) const override {
    return shapes(tokens, logit_rows, a2a).bytes();
  }

  dbo::Task forward(dbo::Ubatch& ub, const Batch& batch, std::span<const ops::KvCache> kv,
                    comm::AllToAll& a2a) const override {
    Buffers b = shapes(batch.ids.rows(), batch.logit_rows.rows(), a2a.config());
    b.place(ub.arena);
    ub.layer = -1;
    ub.stage = "embed";
    ops::embed(ub.lane(), b.x, weights_.embedding, batch.ids);
    for (size_t index = 0; index < layers_.size(); ++index) {
      const Layer& layer = layers_[index];
      ub.layer = static_cast<int16_t>(index);
      layer.attention.forward(ub, b, batch.attention, kv[index]);
      if (layer.dense) {
        layer.dense->forward(ub, b);
        continue;
      }
      dbo::Task moe = layer.moe->forward(ub, b, a2a);
      co_await moe;
    }
    ub.layer = -1;
    ub.stage = "logits";
    logits(ub.lane(), b, batch);
  }

 private:
  struct Layer {
    explicit Layer(Attention own) : attention(own) {}
    Attention attention;
    std::optional<MoeLayer> moe;      // one of the two
    std::optional<DenseLayer> dense;
  };

  Buffers shapes(int64_t tokens, int64_t logit_rows, const comm::Config& a2a) const {
    return Buffers::shapes(config_, weights_, experts_, {tokens, logit_rows, a2a.capacity()});
  }

  void logits(const Lane& on, const Buffers& b, const Batch& batch) const {
    ops::gather_rows(on, b.last, b.x, batch.logit_rows);
    ops::rms_norm(on, b.last_normed, b.last, weights_.final_norm, config_.rms_eps);
    ops::gemm(on, batch.logits, {b.last_normed, {}}, weights_.head, ops::Store::assign, "lm_head");
  }

  ModelConfig config_;
  Weights weights_;  // referred to by layers_: the object never moves
  WeightFormat experts_;
  std::vector<Layer> layers_;
};

Expected<void> check_options(const ModelConfig& config, const LoadOptions& options) {
  if (options.ranks < 1 || options.rank < 0 || options.rank >= options.ranks) {
    return fail(Code::config, fmt::format("rank {} of {}", options.rank, options.ranks));
  }
  if (config.experts % options.ranks == 0) return {};
  return fail(Code::config, fmt::format("{} experts cannot be spread evenly over {} expert-parallel ranks. Choose a size "
                                        "that divides {}.", config.experts, options.ranks, config.experts));
}

Expected<std::unique_ptr<Model>> load_from(TensorSource& source, const ModelConfig& config, ExpertLayout layout,
                                           const LoadOptions& options) {
  const auto experts = expert_format(config, layout);
  if (!experts) return tl::unexpected(experts.error());
  auto weights = load_weights(config, Manifest(config, layout), options, source);
  if (!weights) return tl::unexpected(weights.error());
  return std::make_unique<Qwen3Moe>(config, std::move(*weights), *experts);
}

}  // namespace

Expected<std::unique_ptr<Model>> load_model(const std::filesystem::path& folder, const ModelConfig& config,
                                            const LoadOptions& options) {
  if (auto good = check_options(config, options); !good) return tl::unexpected(good.error());
  if (options.format == LoadFormat::dummy) {
    const auto source = dummy_source(options.seed);
    return load_from(*source, config, ExpertLayout::per_expert, options);
  }
  auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  const ExpertLayout layout = layout_of(*checkpoint);
  if (auto good = Manifest(config, layout).check(*checkpoint, config); !good) return tl::unexpected(good.error());
  const auto source = checkpoint_source(std::move(*checkpoint));
  return load_from(*source, config, layout, options);
}

}  // namespace hocket::model
