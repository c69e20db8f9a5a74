// From logits to a token. Pure: a token depends on its logits, its request's parameters and history, and its position
// alone, so that no batch, cut or rank changes a sample.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "sched/request.h"

namespace hocket::engine {

/// What sampling needs to know of a row beside its logits.
struct SampleRow {
  const sched::SamplingParams* params = nullptr;
  std::span<const int32_t> prompt{}, generated{};
  std::span<const int32_t> forbidden{};  ///< ids without a token; and EOS while min_tokens are not reached
};

struct Sample {
  int32_t token = 0;
  float logprob = 0;                 ///< of the chosen token, if params->logprobs >= 0
  std::vector<TokenLogprob> top{};  ///< best first
};

/// logits [vocab] are changed in place. Order, as vLLM: forbidden ids, penalties, temperature, min-p, top-k, top-p, draw.
/// Log-probabilities are of the raw logits. Ties go to the lowest id. The draw is Philox keyed by (seed, generated count).
Sample sample(std::span<float> logits, const SampleRow& row);

}  // namespace hocket::engine
