#include "engine/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace hocket::engine {
namespace {

using sched::SamplingParams;
using testing::HasSubstr;

const AdmissionLimits kLimits{.max_model_len = 10, .vocab = 8, .max_logprobs = 5};

std::string refusal(std::vector<int32_t> prompt, const SamplingParams& params) {
  auto result = admit(prompt, params, kLimits);
  return result ? "" : result.error().message;
}

TEST(Admission, NamesWhatIsWrongWithThePrompt) {
  EXPECT_THAT(refusal({}, {}), HasSubstr("prompt is empty"));
  EXPECT_THAT(refusal({1, 8}, {}), HasSubstr("Token id 8 is out of vocabulary"));
  EXPECT_THAT(refusal({-1}, {}), HasSubstr("Token id -1 is out of vocabulary"));
  EXPECT_THAT(refusal(std::vector<int32_t>(10, 1), {}), HasSubstr("maximum context length is 10 tokens"));
}

TEST(Admission, NamesTheParameterAndItsRange) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(refusal({1}, {.temperature = 2.5F}), HasSubstr("temperature must be from 0 to 2"));
  EXPECT_THAT(refusal({1}, {.temperature = nan}), HasSubstr("temperature"));
  EXPECT_THAT(refusal({1}, {.top_p = 0}), HasSubstr("top_p"));
  EXPECT_THAT(refusal({1}, {.top_p = 1.1F}), HasSubstr("top_p"));
  EXPECT_THAT(refusal({1}, {.min_p = -0.1F}), HasSubstr("min_p"));
  EXPECT_THAT(refusal({1}, {.top_k = -2}), HasSubstr("top_k"));
  EXPECT_THAT(refusal({1}, {.presence_penalty = 3}), HasSubstr("presence_penalty"));
  EXPECT_THAT(refusal({1}, {.frequency_penalty = -3}), HasSubstr("frequency_penalty"));
  EXPECT_THAT(refusal({1}, {.repetition_penalty = 0}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(refusal({1}, {.max_tokens = 0}), HasSubstr("max_tokens"));
  EXPECT_THAT(refusal({1}, {.max_tokens = 2, .min_tokens = 3}), HasSubstr("min_tokens"));
  EXPECT_THAT(refusal({1}, {.stop_token_ids = {8}}), HasSubstr("stop_token_ids"));
  EXPECT_THAT(refusal({1}, {.stop = {""}}), HasSubstr("stop string is empty"));
  EXPECT_THAT(refusal({1}, {.logprobs = 6}), HasSubstr("logprobs"));
}

TEST(Admission, CapsMaxTokensToTheContext) {
  auto result = admit(std::vector<int32_t>(7, 1), {.max_tokens = 100, .min_tokens = 50}, kLimits);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->max_tokens, 3);
  EXPECT_EQ(result->min_tokens, 3);
}

}  // namespace
}  // namespace hocket::engine
