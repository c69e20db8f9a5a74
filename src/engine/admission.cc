#include "engine/admission.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace hocket::engine {
namespace {

tl::unexpected<Failure> refuse(std::string message) { return fail(Code::bad_input, std::move(message)); }

Expected<void> check_prompt(std::span<const int32_t> prompt, const AdmissionLimits& limits) {
  if (prompt.empty()) return refuse("The prompt is empty. Give at least one token.");
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= limits.vocab) {
      return refuse(fmt::format("Token id {} is out of vocabulary (prompt position {}, vocabulary size {}).", prompt[i],
                                i, limits.vocab));
    }
  }
  if (static_cast<int64_t>(prompt.size()) >= limits.max_model_len) {
    return refuse(fmt::format("This model's maximum context length is {} tokens, but the prompt has {} and at least one "
                              "token must be generated. Please shorten the prompt.",
                              limits.max_model_len, prompt.size()));
  }
  return {};
}

Expected<void> check_ids(const sched::SamplingParams& p, const AdmissionLimits& limits) {
  for (int32_t id : p.stop_token_ids) {
    if (id < 0 || id >= limits.vocab) return refuse(fmt::format("stop_token_ids: Token id {} is out of vocabulary.", id));
  }
  for (const std::string& stop : p.stop) {
    if (stop.empty()) return refuse("stop: a stop string is empty.");
  }
  return {};
}

struct Range {
  const char* name;
  float value, low, high;
};

Expected<void> check_ranges(const sched::SamplingParams& p, const AdmissionLimits& limits) {
  for (const Range& r : {Range{"temperature", p.temperature, 0, 2}, Range{"min_p", p.min_p, 0, 1},
                         Range{"presence_penalty", p.presence_penalty, -2, 2},
                         Range{"frequency_penalty", p.frequency_penalty, -2, 2}}) {
    if (!(r.value >= r.low && r.value <= r.high)) {
      return refuse(fmt::format("{} must be from {} to {}, got {}.", r.name, r.low, r.high, r.value));
    }
  }
  if (!(p.top_p > 0 && p.top_p <= 1)) return refuse(fmt::format("top_p must be above 0 and at most 1, got {}.", p.top_p));
  if (!(p.repetition_penalty > 0) || !std::isfinite(p.repetition_penalty)) {
    return refuse(fmt::format("repetition_penalty must be above 0, got {}.", p.repetition_penalty));
  }
  if (p.top_k < -1) return refuse(fmt::format("top_k must be -1, 0 or more, got {}.", p.top_k));
  if (p.max_tokens < 1) return refuse(fmt::format("max_tokens must be at least 1, got {}.", p.max_tokens));
  if (p.min_tokens < 0 || p.min_tokens > p.max_tokens) {
    return refuse(fmt::format("min_tokens must be from 0 to max_tokens ({}), got {}.", p.max_tokens, p.min_tokens));
  }
  if (p.logprobs < -1 || p.logprobs > limits.max_logprobs) {
    return refuse(fmt::format("logprobs must be from 0 to {}, got {}.", limits.max_logprobs, p.logprobs));
  }
  return {};
}

}  // namespace

Expected<sched::SamplingParams> admit(std::span<const int32_t> prompt, sched::SamplingParams sampling,
                                      const AdmissionLimits& limits) {
  for (const Expected<void>& check :
       {check_prompt(prompt, limits), check_ids(sampling, limits), check_ranges(sampling, limits)}) {
    if (!check) return tl::unexpected(check.error());
  }
  sampling.max_tokens = std::min(sampling.max_tokens, limits.max_model_len - static_cast<int64_t>(prompt.size()));
  sampling.min_tokens = std::min(sampling.min_tokens, sampling.max_tokens);
  return sampling;
}

}  // namespace hocket::engine
