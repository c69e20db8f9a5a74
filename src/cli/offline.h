// Runs a list of prompts through an engine and waits for all of them: generate, eval and bench throughput.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace hocket::cli {

struct Prompt {
  std::vector<int32_t> ids;
  sched::SamplingParams sampling;
};

/// `count` prompts of `input_len` random ids without special tokens that generate `output_len` tokens, whatever they are.
/// A pure function of (seed, prompt), so that runs compare.
std::vector<Prompt> random_prompts(int64_t count, int64_t input_len, int64_t output_len, const text::Tokenizer& tokenizer,
                                   uint64_t seed);

struct Completion {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;  ///< of the chosen tokens, if asked for
  std::string text;
  engine::FinishReason finish = engine::FinishReason::none;
  std::string stop_reason, error;
};

/// In the order of the prompts. Fails if a prompt is refused (naming its index) or ends with an error. `progress` is
/// called with the number of finished prompts, from any thread.
Expected<std::vector<Completion>> complete(engine::Engine& engine, std::vector<Prompt> prompts,
                                           const std::function<void(size_t done)>& progress = {});

}  // namespace hocket::cli
