#include "server/completion_request.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/json_text.h"

namespace hocket::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Ids = std::vector<int32_t>;

CompletionLimits limits() {
  CompletionLimits l;
  l.vocab = 1024;
  return l;
}
CompletionRequest parse(std::string_view body) {
  auto request = parse_completion(body, limits());
  if (!request) {
    ADD_FAILURE() << request.error().message << " in " << body;
    return {};
  }
  return *request;
}
/// "param: message"
std::string refusal(std::string_view body) {
  auto request = parse_completion(body, limits());
  if (request) return "(accepted)";
  EXPECT_EQ(request.error().status, 400);
  EXPECT_TRUE(is_utf8(request.error().message));
  return request.error().param + ": " + request.error().message;
}

TEST(CompletionRequest, DefaultsAreVllms) {
  const CompletionRequest r = parse(R"({"prompt":"hi"})");
  EXPECT_EQ(std::get<std::string>(r.prompts.at(0)), "hi");
  EXPECT_EQ(r.model, "");
  EXPECT_EQ(r.choices, 1);
  EXPECT_FALSE(r.echo || r.stream || r.include_usage || r.continuous_usage);
  EXPECT_EQ(r.seed, std::nullopt);
  EXPECT_EQ(r.sampling.max_tokens, 16);
  EXPECT_EQ(r.sampling.temperature, 1.0F);
  EXPECT_EQ(r.sampling.logprobs, -1);
}

TEST(CompletionRequest, NullIsTheDefaultOfEveryField) {
  const CompletionRequest r = parse(
      R"({"prompt":"a","model":null,"max_tokens":null,"n":null,"temperature":null,"top_p":null,"top_k":null,"min_p":null,
          "seed":null,"stop":null,"stop_token_ids":null,"logprobs":null,"stream":null,"stream_options":null,"echo":null,
          "suffix":null,"logit_bias":null,"response_format":null,"skip_special_tokens":null,"user":null,"best_of":null})");
  EXPECT_EQ(r.sampling.max_tokens, 16);
  EXPECT_EQ(r.sampling.logprobs, -1);
}

TEST(CompletionRequest, PromptHasFourForms) {
  EXPECT_THAT(parse(R"({"prompt":["a","b"]})").prompts, ElementsAre("a", "b"));
  EXPECT_THAT(parse(R"({"prompt":[1,2]})").prompts, ElementsAre(Ids{1, 2}));
  EXPECT_THAT(parse(R"({"prompt":[[1,2],[3]]})").prompts, ElementsAre(Ids{1, 2}, Ids{3}));
  EXPECT_THAT(parse("{\"prompt\":\"a\\u0000b\"}").prompts, ElementsAre(std::string("a\0b", 3)));
  const std::string form = "prompt: prompt must be a string, a list of strings, a list of token ids or a list of lists of token ids";
  EXPECT_EQ(refusal(R"({"prompt":["a",1]})"), form + ".");
  EXPECT_EQ(refusal(R"({"prompt":[1,"a"]})"), form + ".");
  EXPECT_EQ(refusal(R"({"prompt":[1,[2]]})"), form + ".");
  EXPECT_EQ(refusal(R"({"prompt":[[1],2]})"), form + ".");
  EXPECT_EQ(refusal(R"({"prompt":[[1],["a"]]})"), form + ".");
  EXPECT_EQ(refusal(R"({"prompt":[[[1]]]})"), form + ".");
  EXPECT_EQ(refusal(R"({"prompt":{"a":1}})"), form + ".");
  EXPECT_EQ(refusal(R"({"prompt":7})"), form + ", got 7.");
  EXPECT_EQ(refusal(R"({"prompt":[1.0]})"), form + ".");
}

TEST(CompletionRequest, PromptMustHaveContent) {
  EXPECT_EQ(refusal("{}"), "prompt: prompt is missing.");
  for (const char* prompt : {"null", "\"\"", "[]", "[[]]", "[[1],[]]", "[\"a\",\"\"]"}) {
    EXPECT_EQ(refusal(std::string("{\"prompt\":") + prompt + "}"), "prompt: prompt must not be empty.") << prompt;
  }
  EXPECT_EQ(refusal(R"({"prompt":[1024]})"), "prompt: Token id 1024 is out of vocabulary.");
  EXPECT_EQ(refusal(R"({"prompt":[-1]})"), "prompt: Token id -1 is out of vocabulary.");
  std::string many = "{\"prompt\":[\"a\"";
  for (int i = 0; i < 1024; ++i) many += ",\"a\"";
  EXPECT_EQ(refusal(many + "]}"), "prompt: prompt: at most 1024 prompts are allowed.");
}

TEST(CompletionRequest, AllFieldsArrive) {
  const CompletionRequest r = parse(
      R"({"model":"m","prompt":"p","max_tokens":5,"min_tokens":2,"n":3,"temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,
          "presence_penalty":-1,"frequency_penalty":2,"repetition_penalty":1.5,"seed":18446744073709551615,"stop":["x","y"],
          "stop_token_ids":[3,4],"ignore_eos":true,"include_stop_str_in_output":true,"logprobs":20,"stream":true,
          "stream_options":{"include_usage":true,"continuous_usage_stats":true,"other":1},"add_special_tokens":false,
          "skip_special_tokens":true,"user":{"any":"thing"}})");
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(r.choices, 3);
  EXPECT_EQ(r.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_TRUE(r.stream && r.include_usage && r.continuous_usage && !r.add_special_tokens);
  const sched::SamplingParams& s = r.sampling;
  EXPECT_EQ(s.max_tokens, 5);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.temperature, 0.5F);
  EXPECT_EQ(s.top_p, 0.25F);
  EXPECT_EQ(s.top_k, 7);
  EXPECT_EQ(s.min_p, 0.125F);
  EXPECT_EQ(s.presence_penalty, -1.0F);
  EXPECT_EQ(s.frequency_penalty, 2.0F);
  EXPECT_EQ(s.repetition_penalty, 1.5F);
  EXPECT_THAT(s.stop, ElementsAre("x", "y"));
  EXPECT_THAT(s.stop_token_ids, ElementsAre(3, 4));
  EXPECT_TRUE(s.ignore_eos && s.include_stop_str_in_output);
  EXPECT_EQ(s.logprobs, 20);
  EXPECT_THAT(parse(R"({"prompt":"p","stop":"one"})").sampling.stop, ElementsAre("one"));
  EXPECT_EQ(parse(R"({"prompt":"p","seed":-1})").seed, std::nullopt);
  EXPECT_EQ(parse(R"({"prompt":"p","seed":-2})").seed, static_cast<uint64_t>(-2));
}

TEST(CompletionRequest, RangesAndTypesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature":2.5)", "temperature: temperature must be from 0 to 2, got 2.5."},
      {R"("temperature":1e300)", "temperature: temperature must be from 0 to 2, got 1e+300."},
      {R"("temperature":"hot")", "temperature: temperature must be a number, got a string."},
      {R"("temperature":[1])", "temperature: temperature must be a number."},
      {R"("top_p":0)", "top_p: top_p must be above 0 and at most 1, got 0."},
      {R"("repetition_penalty":0)", "repetition_penalty: repetition_penalty must be above 0, got 0."},
      {R"("repetition_penalty":1e39)", "repetition_penalty: repetition_penalty must be above 0, got 1e+39."},
      {R"("max_tokens":16.0)", "max_tokens: max_tokens must be an integer, got 16."},
      {R"("max_tokens":true)", "max_tokens: max_tokens must be an integer, got true."},
      {R"("max_tokens":-1)", "max_tokens: max_tokens must be at least 0 and not huge, got -1."},
      {R"("max_tokens":0)", "max_tokens: max_tokens must be at least 1 without echo, got 0."},
      {R"("n":0)", "n: n must be from 1 to 128, got 0."},
      {R"("n":2,"temperature":0)", "n: n must be 1 when using greedy sampling, got 2."},
      {R"("top_k":-2)", "top_k: top_k must be at least -1 and not huge, got -2."},
      {R"("logprobs":21)", "logprobs: logprobs must be from 0 to 20, got 21."},
      {R"("min_tokens":17)", "min_tokens: min_tokens must be from 0 to max_tokens (16), got 17."},
      {R"("stream":1)", "stream: stream must be a boolean, got 1."},
      {R"("stop":[""])", "stop: stop: a stop string is empty."},
      {R"("stop":[1])", "stop: stop must be a string or a list of strings."},
      {R"("stop":{})", "stop: stop must be a string or a list of strings."},
      {R"("stop_token_ids":[5000])", "stop_token_ids: Token id 5000 is out of vocabulary."},
      {R"("seed":1.5)", "seed: seed must be a 64-bit integer, got 1.5."},
      {R"("model":5)", "model: model must be a string, got 5."},
      {R"("stream_options":{"include_usage":true})", "stream_options: stream_options can be used only with stream."},
      {R"("stream":true,"stream_options":{"include_usage":1})",
       "stream_options: stream_options must be an object with the booleans include_usage and continuous_usage_stats."},
  };
  for (const auto& [field, expected] : cases) {
    EXPECT_EQ(refusal(std::string("{\"prompt\":\"a\",") + field + "}"), expected);
  }
}

TEST(CompletionRequest, MissingFeaturesAreNamed) {
  for (const char* field : {R"("suffix":"x")", R"("logit_bias":{"5":1})", R"("bad_words":["x"])", R"("prompt_logprobs":1)",
                            R"("use_beam_search":true)", R"("structured_outputs":{"json":{}})", R"("priority":-3)",
                            R"("response_format":{"type":"json_object"})", R"("skip_special_tokens":false)"}) {
    EXPECT_THAT(refusal(std::string("{\"prompt\":\"a\",") + field + "}"), HasSubstr(" is not supported by this server.")) << field;
  }
  EXPECT_EQ(refusal(R"({"prompt":"a","echo":true,"logprobs":1})"), "echo: echo with logprobs is not supported by this server.");
  parse(R"({"prompt":"a","suffix":"","logit_bias":{},"bad_words":[],"prompt_logprobs":0,"use_beam_search":false,
            "response_format":{"type":"text"}})");
}

TEST(CompletionRequest, JsonIsStrict) {
  EXPECT_THAT(refusal(""), StartsWith(": The request body is not valid JSON (byte 1): "));
  EXPECT_THAT(refusal("{\"prompt\":\"a\",}"), StartsWith(": The request body is not valid JSON (byte 15): "));
  EXPECT_EQ(refusal("[1]"), ": The request body must be a JSON object.");
  EXPECT_EQ(refusal("\"a\""), ": The request body must be a JSON object.");
  EXPECT_EQ(refusal(R"({"a":1,"a":2,"prompt":"x"})"), ": The field \"a\" is there twice.");
  EXPECT_EQ(refusal(R"({"prompt":"x","prompt":"y"})"), "prompt: The field \"prompt\" is there twice.");
  EXPECT_EQ(refusal(R"({"prompt":"x","seed":18446744073709551616})"), "seed: The number 18446744073709551616 does not fit in 64 bits.");
  EXPECT_EQ(refusal(R"({"prompt":"x","unknown":[99999999999999999999]})"), ": The number 99999999999999999999 does not fit in 64 bits.");
  for (const char* body : {R"({"prompt":"x","temperature":NaN})", R"({"prompt":"x","temperature":Infinity})",
                           R"({"prompt":"x","temperature":1e999})", R"({"prompt":"x"} {})", R"({"prompt":"\ud800"})",
                           "{\"prompt\":\"\xff\"}", "{\"prompt\":\"\xed\xa0\x80\"}", R"({"prompt":"x)", R"({'prompt':"x"})"}) {
    EXPECT_THAT(refusal(body), StartsWith(": The request body is not valid JSON (byte ")) << body;
  }
}

TEST(CompletionRequest, DepthIsBounded) {
  const auto nested = [](int depth) {
    return "{\"prompt\":\"a\",\"x\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  parse(nested(127));
  EXPECT_EQ(refusal(nested(128)), ": The request body is nested deeper than 128 levels.");
  EXPECT_EQ(refusal("{\"x\":" + std::string(1'000'000, '[')), ": The request body is nested deeper than 128 levels.");
}

/// Whatever is done to a body, the answer is a request or a refusal in UTF-8; never a crash.
TEST(CompletionRequest, SurvivesMutations) {
  const std::string base =
      R"({"prompt":[[1,2],[3]],"stop":["a","b"],"seed":12,"temperature":0.5,"stream":true,"stream_options":{"include_usage":true}})";
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string body = base;
    for (int change = 0; change < 3; ++change) {
      const size_t at = random() % body.size();
      switch (random() % 3) {
        case 0: body[at] = static_cast<char>(random()); break;
        case 1: body.erase(at, random() % 8); break;
        default: body.insert(at, 1, "[]{}\",:0-e"[random() % 10]);
      }
      if (body.empty()) body = "x";
    }
    const auto request = parse_completion(body, limits());
    if (!request) {
      EXPECT_TRUE(is_utf8(request.error().message)) << body;
      EXPECT_FALSE(request.error().message.empty());
    } else {
      EXPECT_FALSE(request->prompts.empty()) << body;
    }
  }
}

TEST(JsonText, EscapesWhatJsonMust) {
  EXPECT_EQ(json_string("a\"\\\b\f\n\r\t\x01\x1f/\x7f"), "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f/\x7f\"");
  EXPECT_EQ(json_string(std::string_view("\0", 1)), "\"\\u0000\"");
  EXPECT_EQ(json_string("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
  EXPECT_EQ(json_string("a\xFF\xC3z"), "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\"");
  EXPECT_EQ(json_string("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonText, LogprobsReadBackAsTheSameFloat) {
  const auto text = [](float v) {
    std::string out;
    append_json_logprob(out, v);
    return out;
  };
  EXPECT_EQ(text(-0.1F), "-0.1");
  EXPECT_EQ(std::stof(text(-1.2345678F)), -1.2345678F);
  EXPECT_EQ(std::stof(text(-std::numeric_limits<float>::infinity())), -9999.0F);
  EXPECT_EQ(std::stof(text(std::numeric_limits<float>::quiet_NaN())), -9999.0F);
}

}  // namespace
}  // namespace hocket::server
