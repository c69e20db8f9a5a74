#include "server/completion_fields.h"

#include <limits>

namespace hocket::server {
namespace {

using R = CompletionRequest;
constexpr double kFloatMax = std::numeric_limits<float>::max();
constexpr double kIntMax = std::numeric_limits<int>::max();
constexpr double kCountMax = 0x1p53;  // exact as a double, and more tokens than anybody has

// clang-format off
constexpr Field kFields[] = {
  {.name = "model", .kind = Kind::model},
  {.name = "prompt", .kind = Kind::prompt},
  {.name = "max_tokens", .kind = Kind::integer, .low = 0, .high = kCountMax, .set_integer = [](R& r, int64_t v) { r.sampling.max_tokens = v; }},
  {.name = "min_tokens", .kind = Kind::integer, .low = 0, .high = kCountMax, .set_integer = [](R& r, int64_t v) { r.sampling.min_tokens = v; }},
  {.name = "n", .kind = Kind::integer, .low = 1, .high = 128, .set_integer = [](R& r, int64_t v) { r.choices = v; }},
  {.name = "logprobs", .kind = Kind::integer, .low = 0, .high = kIntMax, .set_integer = [](R& r, int64_t v) { r.sampling.logprobs = static_cast<int>(v); }},
  {.name = "echo", .kind = Kind::boolean, .set_boolean = [](R& r, bool v) { r.echo = v; }},
  {.name = "stream", .kind = Kind::boolean, .set_boolean = [](R& r, bool v) { r.stream = v; }},
  {.name = "stream_options", .kind = Kind::stream_options},
  {.name = "temperature", .kind = Kind::real, .low = 0, .high = 2, .set_real = [](R& r, float v) { r.sampling.temperature = v; }},
  {.name = "top_p", .kind = Kind::real, .low = 0, .high = 1, .above_low = true, .set_real = [](R& r, float v) { r.sampling.top_p = v; }},
  {.name = "top_k", .kind = Kind::integer, .low = -1, .high = kIntMax, .set_integer = [](R& r, int64_t v) { r.sampling.top_k = static_cast<int>(v); }},
  {.name = "min_p", .kind = Kind::real, .low = 0, .high = 1, .set_real = [](R& r, float v) { r.sampling.min_p = v; }},
  {.name = "presence_penalty", .kind = Kind::real, .low = -2, .high = 2, .set_real = [](R& r, float v) { r.sampling.presence_penalty = v; }},
  {.name = "frequency_penalty", .kind = Kind::real, .low = -2, .high = 2, .set_real = [](R& r, float v) { r.sampling.frequency_penalty = v; }},
  {.name = "repetition_penalty", .kind = Kind::real, .low = 0, .high = kFloatMax, .above_low = true, .set_real = [](R& r, float v) { r.sampling.repetition_penalty = v; }},
  {.name = "seed", .kind = Kind::seed},
  {.name = "stop", .kind = Kind::stops},
  {.name = "stop_token_ids", .kind = Kind::stop_ids},
  {.name = "ignore_eos", .kind = Kind::boolean, .set_boolean = [](R& r, bool v) { r.sampling.ignore_eos = v; }},
  {.name = "include_stop_str_in_output", .kind = Kind::boolean, .set_boolean = [](R& r, bool v) { r.sampling.include_stop_str_in_output = v; }},
  {.name = "add_special_tokens", .kind = Kind::boolean, .set_boolean = [](R& r, bool v) { r.add_special_tokens = v; }},
  {.name = "skip_special_tokens", .kind = Kind::only_true},
  {.name = "user", .kind = Kind::ignored},
  {.name = "request_id", .kind = Kind::ignored},
  {.name = "response_format", .kind = Kind::response_format},
  {.name = "suffix", .kind = Kind::unsupported},
  {.name = "prompt_logprobs", .kind = Kind::unsupported},
  {.name = "prompt_embeds", .kind = Kind::unsupported},
  {.name = "logit_bias", .kind = Kind::unsupported},
  {.name = "allowed_token_ids", .kind = Kind::unsupported},
  {.name = "bad_words", .kind = Kind::unsupported},
  {.name = "return_token_ids", .kind = Kind::unsupported},
  {.name = "return_tokens_as_token_ids", .kind = Kind::unsupported},
  {.name = "truncate_prompt_tokens", .kind = Kind::unsupported},
  {.name = "priority", .kind = Kind::unsupported},
  {.name = "structured_outputs", .kind = Kind::unsupported},
  {.name = "guided_json", .kind = Kind::unsupported},
  {.name = "guided_regex", .kind = Kind::unsupported},
  {.name = "guided_choice", .kind = Kind::unsupported},
  {.name = "guided_grammar", .kind = Kind::unsupported},
  {.name = "use_beam_search", .kind = Kind::unsupported},
  {.name = "vllm_xargs", .kind = Kind::unsupported},
};
// clang-format on

}  // namespace

const Field* find_field(std::string_view name) {
  for (const Field& field : kFields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

}  // namespace hocket::server
