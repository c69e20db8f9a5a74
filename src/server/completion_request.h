// The body of POST /v1/completions, checked field by field. Pure; no HTTP.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "sched/request.h"
#include "server/api_error.h"

namespace hocket::server {

struct CompletionLimits {
  int64_t vocab = 0;  ///< prompt ids are in [0, vocab)
  int max_logprobs = 20;
  int64_t max_prompts = 1024, max_stops = 64;
};

struct CompletionRequest {
  std::string model;  ///< empty: not given
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;  ///< at least one, none of them empty
  int64_t choices = 1;  ///< `n`
  bool echo = false, add_special_tokens = true;
  bool stream = false, include_usage = false, continuous_usage = false;
  std::optional<uint64_t> seed;    ///< sampling.seed is not set
  sched::SamplingParams sampling;  ///< max_tokens 0 only with echo
};

/// Refuses (400) what is not one JSON object in UTF-8, doubled top-level keys, numbers that overflow, nesting above 128,
/// wrong types, values out of range, and features that this server does not have. Unknown fields are ignored, null is the
/// default. `body` may be anything.
tl::expected<CompletionRequest, ApiError> parse_completion(std::string_view body, const CompletionLimits& limits);

}  // namespace hocket::server
