#include <fmt/format.h>

#include "engine/engine.h"

namespace hocket::engine {
namespace {

std::string count(int64_t n) {
  const auto value = static_cast<double>(n);
  if (n >= 1'000'000'000) return fmt::format("{:.1f} B", value / 1e9);
  if (n >= 1'000'000) return fmt::format("{:.1f} M", value / 1e6);
  return fmt::format("{}", n);
}

std::string size(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1 << 30) return fmt::format("{:.1f} GiB", value / (1 << 30));
  return fmt::format("{:.1f} MiB", value / (1 << 20));
}

}  // namespace

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::none: return "";
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::abort: return "abort";
    case FinishReason::error: return "error";
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> Summary::table() const {
  const bool fp8 = model.format == ops::WeightFormat::fp8_block;
  const int64_t tokens = kv_blocks * block_size;
  return {
      {"model", fmt::format("{} ({}, {})", model.name, model.model_type, fp8 ? "fp8 e4m3 128x128" : "bf16")},
      {"parameters", fmt::format("{} in all, {} active, {} of weights", count(model.total_parameters()),
                                 count(model.active_parameters()), size(weight_bytes))},
      {"layers", fmt::format("{}, experts {}, top-{}, {} experts a rank", model.layers, model.experts, model.top_k,
                             experts_per_rank)},
      {"parallel", fmt::format("DP{} EP{}, all-to-all {} over threads", ranks, expert_ranks, backend)},
      {"overlap", fmt::format("DBO {}", dbo)},
      {"kv cache", fmt::format("{} blocks x {} = {} tokens a rank, {}, {:.1f}x of max-model-len {}", kv_blocks, block_size,
                               tokens, size(kv_bytes), static_cast<double>(tokens) / static_cast<double>(max_model_len),
                               max_model_len)},
      {"scheduler", fmt::format("{} sequences, {} tokens a step, prefix cache {}, chunked prefill on", max_seqs,
                                max_batched_tokens, prefix_cache)},
      {"device", fmt::format("CPU {}, {} thread{} a rank", isa, threads_per_rank, threads_per_rank == 1 ? "" : "s")},
  };
}

}  // namespace hocket::engine
