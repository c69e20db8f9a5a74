#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace hocket::server {
namespace {

using engine::FinishReason;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_json(std::string_view message, std::string_view type, std::string_view param, int code) {
  return "{\"error\":{\"message\":\"" + std::string(message) + "\",\"type\":\"" + std::string(type) +
         "\",\"param\":" + std::string(param) + ",\"code\":" + std::to_string(code) + "}}";
}

TEST(Server, AnswersWithOneObject) {
  TestServer server;
  Client client = server.client();
  client.post(R"({"prompt":[1,2,3],"max_tokens":2,"seed":5,"unknown_field":{"a":[1]}})", "X-Request-Id: 7f\r\n");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  const auto submitted = server.engine.submitted(0);
  EXPECT_EQ(submitted.prompt, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(submitted.sampling.max_tokens, 2);
  EXPECT_EQ(submitted.sampling.seed, 5U);
  server.engine.token(0, 10, " a\"\n");
  server.engine.token(0, 11, "\xC3\xA9", FinishReason::length);
  const Response response = client.response();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_EQ(response.headers.at("x-request-id"), "7f");
  EXPECT_EQ(timeless(response.body),
            "{\"id\":\"cmpl-7f\",\"object\":\"text_completion\",\"created\":0,\"model\":\"tiny\",\"choices\":[{\"index\":0,"
            "\"text\":\" a\\\"\\n\xC3\xA9\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}],"
            "\"usage\":{\"prompt_tokens\":3,\"total_tokens\":5,\"completion_tokens\":2},"
            "\"system_fingerprint\":\"hocket-0.1.0\"}");
}

TEST(Server, KeepsAConnectionForManyRequests) {
  TestServer server;
  Client client = server.client();
  for (size_t i = 0; i < 3; ++i) {
    client.post(R"({"prompt":"hello","max_tokens":1})");
    ASSERT_TRUE(server.engine.wait_submitted(i + 1));
    server.engine.token(i, 10, "x", FinishReason::length);
    EXPECT_EQ(client.response().status, 200);
    EXPECT_EQ(client.get("/health").status, 200);
  }
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  Client client = server.client();
  client.post(R"({"prompt":"a","max_tokens":1})", "X-Request-Id: one\r\n");
  client.send("GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
  client.post(R"({"prompt":"b","max_tokens":1})", "X-Request-Id: two\r\n");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "x", FinishReason::length);
  EXPECT_EQ(client.response().headers.at("x-request-id"), "one");
  EXPECT_EQ(client.response().body, "{\"version\":\"0.1.0\"}");
  ASSERT_TRUE(server.engine.wait_submitted(2));
  server.engine.token(1, 10, "x", FinishReason::length);
  EXPECT_EQ(client.response().headers.at("x-request-id"), "two");
}

TEST(Server, GivesEveryPromptAndChoiceItsIndex) {
  TestServer server;
  Client client = server.client();
  client.post(R"({"prompt":[[1,2],[3]],"n":2,"seed":9,"max_tokens":1})");
  ASSERT_TRUE(server.engine.wait_submitted(4));
  EXPECT_EQ(server.engine.submitted(0).sampling.seed, 9U);
  EXPECT_NE(server.engine.submitted(1).sampling.seed, 9U);
  EXPECT_EQ(server.engine.submitted(1).sampling.seed, server.engine.submitted(3).sampling.seed);
  EXPECT_EQ(server.engine.submitted(2).prompt, std::vector<int32_t>{3});
  for (size_t i : {3, 1, 0, 2}) server.engine.token(i, 10, std::to_string(i), FinishReason::stop, i == 3 ? "10" : "");
  const std::string body = client.response().body;
  EXPECT_THAT(body, HasSubstr(R"({"index":0,"text":"0","logprobs":null,"finish_reason":"stop","stop_reason":null},{"index":1,)"));
  EXPECT_THAT(body, HasSubstr(R"({"index":3,"text":"3","logprobs":null,"finish_reason":"stop","stop_reason":10}])"));
  EXPECT_THAT(body, HasSubstr(R"("usage":{"prompt_tokens":3,"total_tokens":7,"completion_tokens":4})"));
}

TEST(Server, EchoesThePrompt) {
  TestServer server;
  Client client = server.client();
  client.post(R"({"prompt":"say \"hi\"","echo":true,"max_tokens":1})");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "!", FinishReason::length);
  EXPECT_THAT(client.response().body, HasSubstr(R"("text":"say \"hi\"!")"));
  client.post(R"({"prompt":"alone","echo":true,"max_tokens":0})");
  const std::string body = client.response().body;
  EXPECT_THAT(body, HasSubstr(R"("text":"alone","logprobs":null,"finish_reason":"length")"));
  EXPECT_THAT(body, HasSubstr(R"("completion_tokens":0)"));
  EXPECT_EQ(server.engine.num_submitted(), 1U);
}

TEST(Server, ErrorsAreJsonByteForByte) {
  TestServer server;
  Client client = server.client();
  struct Case {
    std::string body;
    int status;
    std::string answer;
  };
  std::string long_prompt = "[1";
  for (int i = 1; i < 64; ++i) long_prompt += ",1";
  const Case cases[] = {
      {R"({"prompt":"a","model":"gpt-5"})", 404, error_json("The model `gpt-5` does not exist.", "NotFoundError", "\"model\"", 404)},
      {R"({"max_tokens":1})", 400, error_json("prompt is missing.", "BadRequestError", "\"prompt\"", 400)},
      {R"({"prompt":"a","suffix":"b"})", 400, error_json("suffix is not supported by this server.", "BadRequestError", "\"suffix\"", 400)},
      {R"({"prompt":[1024]})", 400, error_json("Token id 1024 is out of vocabulary.", "BadRequestError", "\"prompt\"", 400)},
      {"{\"prompt\":" + long_prompt + "],\"max_tokens\":5}", 400,
       error_json("This model's maximum context length is 64 tokens. However, you requested 5 output tokens and your prompt "
                  "contains 64 input tokens, for a total of 69 tokens. Please reduce the length of the input prompt or the "
                  "number of requested output tokens.",
                  "BadRequestError", "\"prompt\"", 400)},
  };
  for (const Case& c : cases) {
    client.post(c.body);
    const Response response = client.response();
    EXPECT_EQ(response.status, c.status);
    EXPECT_EQ(response.body, c.answer);
    EXPECT_EQ(response.headers.at("content-type"), "application/json");
  }
  EXPECT_EQ(server.engine.num_submitted(), 0U);
}

TEST(Server, UnknownPathsAndMethods) {
  TestServer server;
  Client client = server.client();
  const Response missing = client.get("/v1/nothing?x=1");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, error_json("There is no /v1/nothing.", "NotFoundError", "null", 404));
  const Response method = client.get("/v1/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
  EXPECT_EQ(method.body, error_json("/v1/completions takes POST, not GET.", "MethodNotAllowedError", "null", 405));
  EXPECT_EQ(client.get("/v1/models", "DELETE").headers.at("allow"), "GET, HEAD");
}

TEST(Server, SmallRoutes) {
  Options options;
  options.served_names = {"org/tiny", "alias"};
  TestServer server(std::move(options));
  Client client = server.client();
  EXPECT_EQ(client.get("/version").body, "{\"version\":\"0.1.0\"}");
  EXPECT_EQ(client.get("/load").body, "{\"server_load\":0}");
  EXPECT_EQ(client.get("/health").body, "");
  EXPECT_EQ(client.get("/ping").status, 200);
  const Response head = client.get("/version", "HEAD");
  EXPECT_EQ(head.headers.at("content-length"), "19");
  const Response models = client.get("/v1/models");
  EXPECT_THAT(models.body, StartsWith(R"({"object":"list","data":[{"id":"org/tiny","object":"model","created":)"));
  EXPECT_THAT(models.body, HasSubstr(R"("owned_by":"hocket","root":"tiny","parent":null,"max_model_len":64,"permission":[{)"));
  EXPECT_THAT(models.body, HasSubstr(R"({"id":"alias",)"));
  EXPECT_THAT(client.get("/v1/models/org%2Ftiny").body, StartsWith(R"({"id":"org/tiny",)"));
  EXPECT_THAT(client.get("/v1/models/org/tiny").body, StartsWith(R"({"id":"org/tiny",)"));
  EXPECT_EQ(client.get("/v1/models/other").body, error_json("The model `other` does not exist.", "NotFoundError", "\"model\"", 404));
  client.post(R"({"prompt":"a","model":"alias","max_tokens":1})");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "x", FinishReason::length);
  EXPECT_THAT(client.response().body, HasSubstr(R"("model":"alias")"));
}

TEST(Server, BodiesThatAreTooLarge) {
  Options options;
  options.max_request_body_bytes = 100;
  TestServer server(std::move(options));
  const std::string answer = error_json("The request body is larger than 100 bytes (--max-request-body-bytes).",
                                        "RequestTooLarge", "null", 413);
  Client declared = server.client();
  declared.post(std::string(50'000, ' '));
  const Response response = declared.response();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_EQ(response.body, answer);
  EXPECT_TRUE(declared.closed_by_server());
  Client chunked = server.client();
  chunked.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n80\r\n" + std::string(128, ' ') +
               "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.response().body, answer);
}

TEST(Server, ChunkedBodiesAndContinue) {
  TestServer server;
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
  Client client = server.client();
  client.send(head);
  EXPECT_EQ(client.head().status, 100);
  client.send("10\r\n{\"prompt\":\"abc\",\r\nF\r\n\"max_tokens\":1}\r\n0\r\n\r\n");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "x", FinishReason::length);
  EXPECT_EQ(client.response().status, 200);
  client.send(head);
  EXPECT_EQ(client.head().status, 100);
  client.send("10\r\n{\"prompt\":\"abc\",\r\n10\r\n\"max_tokens\":1}\r\n0\r\n\r\n");  // one byte more than there is
  EXPECT_EQ(client.response().status, 400);
}

TEST(Server, MalformedHttpIsAnswered) {
  TestServer server;
  Client garbage = server.client();
  garbage.send("\x16\x03\x01 what is this\r\n\r\n");
  const Response response = garbage.response();
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, StartsWith("{\"error\":{\"message\":\"The request is not valid HTTP: "));
  Client fat = server.client();
  fat.send("GET /health HTTP/1.1\r\nX: " + std::string(70'000, 'a') + "\r\n\r\n");
  EXPECT_EQ(fat.response().status, 431);
  Client form = server.client();
  form.post("--x", "Content-Type: multipart/form-data; boundary=x\r\n");
  EXPECT_EQ(form.response().status, 415);
}

TEST(Server, SlowBodiesGet408) {
  Options options;
  options.body_timeout = std::chrono::milliseconds(1);
  TestServer server(std::move(options));
  Client client = server.client();
  client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n");
  const Response response = client.response();
  EXPECT_EQ(response.status, 408);
  EXPECT_EQ(response.body, error_json("The request did not arrive in time.", "RequestTimeout", "null", 408));
}

TEST(Server, IdleConnectionsAreClosed) {
  Options options;
  options.keep_alive_timeout = std::chrono::milliseconds(1);
  TestServer server(std::move(options));
  Client client = server.client();
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_TRUE(client.closed_by_server());
}

TEST(Server, Http10ClosesUnlessAsked) {
  TestServer server;
  Client closing = server.client();
  closing.send("GET /version HTTP/1.0\r\n\r\n");
  EXPECT_EQ(closing.response().headers.at("connection"), "close");
  EXPECT_TRUE(closing.closed_by_server());
  Client keeping = server.client();
  keeping.send("GET /version HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(keeping.response().headers.at("connection"), "keep-alive");
  EXPECT_EQ(keeping.get("/version").status, 200);
}

TEST(Server, AFullQueueIsRefused) {
  Options options;
  options.max_waiting_requests = 10;
  TestServer server(std::move(options));
  server.engine.set_busy(138);  // 128 run, 10 wait
  Client client = server.client();
  client.post(R"({"prompt":"a"})");
  const Response response = client.response();
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.at("retry-after"), "5");
  EXPECT_EQ(response.body, error_json("The queue is full: 10 sequences are waiting. Try again later.", "RateLimitError", "null", 429));
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(Server, AFailedEngineIs503) {
  TestServer server;
  server.engine.set_health(engine::Health::failed);
  Client client = server.client();
  client.post(R"({"prompt":"a"})");
  const Response response = client.response();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.body, error_json("The engine has failed: rank 1: lost", "ServiceUnavailableError", "null", 503));
  EXPECT_EQ(client.get("/health").status, 503);
}

TEST(Server, AFailedSequenceFailsTheRequest) {
  TestServer server;
  Client client = server.client();
  client.post(R"({"prompt":["a","b"],"max_tokens":4})");
  ASSERT_TRUE(server.engine.wait_submitted(2));
  server.engine.token(0, 10, "x");
  server.engine.end(1, FinishReason::error, "step 7 failed");
  const Response response = client.response();
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body, error_json("step 7 failed", "InternalServerError", "null", 500));
  EXPECT_TRUE(server.engine.wait_aborted(0));
}

TEST(Server, ARefusedSequenceAbortsItsSiblings) {
  TestServer server;
  server.engine.refuse({Code::bad_input, "no room"}, 1);
  Client client = server.client();
  client.post(R"({"prompt":["a","b"]})");
  const Response response = client.response();
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body, error_json("no room", "BadRequestError", "null", 400));
  EXPECT_TRUE(server.engine.wait_aborted(0));
}

TEST(Server, ADisconnectedClientAborts) {
  TestServer server;
  {
    Client client = server.client();
    client.post(R"({"prompt":"a"})");
    ASSERT_TRUE(server.engine.wait_submitted(1));
  }
  EXPECT_TRUE(server.engine.wait_aborted(0));
}

TEST(Server, APortInUseIsNamed) {
  TestServer server;
  FakeEngine engine;
  telemetry::Metrics metrics;
  auto tokenizer = text::Tokenizer::load(std::filesystem::path(HOCKET_SOURCE_DIR) / "models/tiny-moe-fp8/tokenizer.json");
  ASSERT_TRUE(tokenizer);
  Options options;
  options.port = server.port();
  auto second = Server::listen(options, engine, *tokenizer, metrics);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::config);
  EXPECT_EQ(second.error().message, "cannot listen on 127.0.0.1:" + std::to_string(server.port()) +
                                        ": the port is in use. Choose another with --port, or --port 0 for any that is free.");
  options.host = "256.1.1.1";
  EXPECT_THAT(Server::listen(options, engine, *tokenizer, metrics).error().message, HasSubstr("the host is unknown"));
}

TEST(Server, CountsWhatItServes) {
  TestServer server;
  Client client = server.client();
  client.post(R"({"prompt":[1,2,3],"max_tokens":2})");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "a");
  server.engine.token(0, 11, "b", FinishReason::length);
  EXPECT_EQ(client.response().status, 200);
  client.get("/nothing");
  const Response metrics = client.get("/metrics");
  EXPECT_EQ(metrics.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line : {
           "vllm:prompt_tokens_total{model_name=\"tiny\"} 3\n",
           "vllm:generation_tokens_total{model_name=\"tiny\"} 2\n",
           "vllm:request_success_total{finished_reason=\"length\",model_name=\"tiny\"} 1\n",
           "vllm:request_success_total{finished_reason=\"stop\",model_name=\"tiny\"} 0\n",
           "vllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 1\n",
           "vllm:inter_token_latency_seconds_count{model_name=\"tiny\"} 1\n",
           "vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 1\n",
           "hocket_server_requests_total{handler=\"/v1/completions\",method=\"POST\",status=\"200\"} 1\n",
           "hocket_server_requests_total{handler=\"other\",method=\"GET\",status=\"404\"} 1\n",
           "hocket_server_connections 1\n",
       }) {
    EXPECT_THAT(metrics.body, HasSubstr(line));
  }
}

}  // namespace
}  // namespace hocket::server
