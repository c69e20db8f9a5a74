#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "engine/config.h"

namespace hocket::engine {
namespace {

using Errors = std::vector<std::string>;

template <class... Args>
void refuse(Errors& errors, fmt::format_string<Args...> format, Args&&... args) {
  errors.push_back("configuration error: " + fmt::format(format, std::forward<Args>(args)...));
}

void check_dbo(const Config& c, const model::ModelConfig& model, Errors& errors) {
  if (c.dbo == Switch::on) {
    if (!c.expert_parallel) {
      refuse(errors,
             "--enable-dbo needs --enable-expert-parallel. DBO hides the expert-parallel exchange; without it there is "
             "nothing to hide. Add --enable-expert-parallel or remove --enable-dbo.");
    }
    if (c.data_parallel < 2) {
      refuse(errors,
             "--enable-dbo needs at least 2 ranks, but --data-parallel-size is {}. Set --data-parallel-size to 2 or "
             "more, or remove --enable-dbo.",
             c.data_parallel);
    }
    if (model.experts == 0) {
      refuse(errors,
             "--enable-dbo needs a mixture-of-experts model, but {} has no expert layers. Remove --enable-dbo.",
             model.name);
    }
    if (c.ubatches == 1) {
      refuse(errors,
             "--enable-dbo with --ubatch-size 1 leaves nothing to overlap. Use --ubatch-size 2 or more, or remove "
             "--enable-dbo.");
    }
  }
  if (c.ubatches && (*c.ubatches < 1 || *c.ubatches > 8)) {
    refuse(errors, "--ubatch-size {}: expected 1 to 8.", *c.ubatches);
  }
  if (c.dbo == Switch::off && c.ubatches && *c.ubatches > 1) {
    refuse(errors, "--ubatch-size {} with --no-enable-dbo has no effect. Remove one of the two.", *c.ubatches);
  }
  if (c.decode_threshold < 0 || c.prefill_threshold < 0) {
    refuse(errors, "--dbo-{}-token-threshold {}: expected 0 or more.", c.decode_threshold < 0 ? "decode" : "prefill",
           c.decode_threshold < 0 ? c.decode_threshold : c.prefill_threshold);
  }
  if (c.keep_gain > c.min_gain) {
    refuse(errors,
           "--dbo-keep-gain {:.2f} is above --dbo-min-gain {:.2f}. A step would start to split only where it should already "
           "stop. Use a keep-gain of at most {:.2f}.",
           c.keep_gain, c.min_gain, c.min_gain);
  }
  if (c.cut.snap_tolerance < 0 || c.cut.snap_tolerance > 0.5) {
    refuse(errors, "--dbo-snap-tolerance {}: expected 0 to 0.5.", c.cut.snap_tolerance);
  }
}

void check_parallel(const Config& c, const model::ModelConfig& model, Errors& errors) {
  if (c.data_parallel < 1 || c.data_parallel > 64) {
    refuse(errors, "--data-parallel-size {}: expected 1 to 64.", c.data_parallel);
    return;
  }
  if (c.expert_parallel && model.experts > 0 && model.experts % c.data_parallel != 0) {
    refuse(errors,
           "{} experts cannot be spread evenly over {} expert-parallel ranks. Choose a size that divides {}.",
           model.experts, c.data_parallel, model.experts);
  }
}

void check_sizes(const Config& c, const model::ModelConfig& model, Errors& errors) {
  const int64_t length = c.max_model_len.value_or(model.max_positions);
  if (length < 1) refuse(errors, "--max-model-len {}: expected 1 or more.", length);
  if (length > model.max_positions) {
    refuse(errors, "--max-model-len {} exceeds the model's {} positions (max_position_embeddings).", length,
           model.max_positions);
  }
  if (c.block_size < 16 || c.block_size > 1024 || c.block_size % 16 != 0) {
    refuse(errors, "--block-size {}: expected a multiple of 16 from 16 to 1024.", c.block_size);
    return;
  }
  if (c.max_batched_tokens < c.block_size) {
    refuse(errors, "--max-num-batched-tokens {} is below --block-size {}.", c.max_batched_tokens, c.block_size);
  }
  if (c.max_batched_tokens > 1 << 20) {
    refuse(errors, "--max-num-batched-tokens {}: expected at most {}.", c.max_batched_tokens, 1 << 20);
  }
  if (c.max_seqs < 1 || c.max_seqs > 65536) refuse(errors, "--max-num-seqs {}: expected 1 to 65536.", c.max_seqs);
  if (c.cpu_threads && (*c.cpu_threads < 1 || *c.cpu_threads > 1024)) {
    refuse(errors, "--cpu-threads {}: expected 1 to 1024.", *c.cpu_threads);
  }
  const int64_t blocks = c.kv_blocks.value_or(c.kv_bytes / (model.kv_bytes_per_token() * c.block_size));
  if (blocks * c.block_size < length) {
    refuse(errors,
           "the KV cache holds {} tokens, less than --max-model-len {}. Raise --kv-cache-memory-bytes or set "
           "--max-model-len {}.",
           blocks * c.block_size, length, blocks * c.block_size);
  }
}

}  // namespace

int threads_per_rank(const Config& config) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, config.cpu_threads.value_or(cores) / config.data_parallel);
}

std::vector<std::string> validate(const Config& config, const model::ModelConfig& model) {
  Errors errors;
  check_parallel(config, model, errors);
  check_dbo(config, model, errors);
  check_sizes(config, model, errors);
  return errors;
}

}  // namespace hocket::engine
