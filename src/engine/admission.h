// Which requests are taken: checks that need no rank.
#pragma once
#include <span>

#include "base/error.h"
#include "sched/request.h"

namespace hocket::engine {

struct AdmissionLimits {
  int64_t max_model_len = 0;
  int64_t vocab = 0;
  int max_logprobs = 20;
};

/// Fails (bad_input) with one line that names the parameter and its range, or the prompt's fault. Caps max_tokens to the
/// room that the prompt leaves.
Expected<sched::SamplingParams> admit(std::span<const int32_t> prompt, sched::SamplingParams sampling,
                                      const AdmissionLimits& limits);

}  // namespace hocket::engine
