#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace hocket::server {
namespace {

using engine::FinishReason;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kHead = "data: {\"id\":\"cmpl-7f\",\"object\":\"text_completion\",\"created\":0,\"model\":\"tiny\",\"choices\":[";

void stream(Client& client, std::string_view more = "") {
  client.post("{\"prompt\":\"hello\",\"max_tokens\":4,\"stream\":true" + std::string(more) + "}", "X-Request-Id: 7f\r\n");
}

TEST(Stream, IsServerSentEventsByteForByte) {
  TestServer server;
  Client client = server.client();
  stream(client);
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, " 28");
  server.engine.token(0, 11, "");  // held back
  server.engine.token(0, 12, " + 29", FinishReason::length);
  const Response response = client.response();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response.headers.at("cache-control"), "no-cache");
  EXPECT_EQ(response.headers.at("x-accel-buffering"), "no");
  EXPECT_EQ(response.headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(response.headers.at("x-request-id"), "7f");
  EXPECT_EQ(timeless(response.body),
            std::string(kHead) + "{\"index\":0,\"text\":\" 28\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}]}\n\n" +
                kHead + "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}]}\n\n" + kHead +
                "{\"index\":0,\"text\":\" + 29\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}]}\n\n"
                "data: [DONE]\n\n");
  EXPECT_EQ(client.get("/health").status, 200);  // the connection goes on
}

TEST(Stream, SendsEachTokenWhenItComes) {
  TestServer server;
  Client client = server.client();
  stream(client);
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "a");
  EXPECT_EQ(client.head().status, 200);
  EXPECT_THAT(client.chunk(), HasSubstr("\"text\":\"a\""));
  server.engine.token(0, 11, "b");
  EXPECT_THAT(client.chunk(), HasSubstr("\"text\":\"b\""));
  server.engine.token(0, 764, "", FinishReason::stop);
  EXPECT_THAT(client.chunk(), EndsWith("\"finish_reason\":\"stop\",\"stop_reason\":null}]}\n\ndata: [DONE]\n\n"));
  EXPECT_EQ(client.chunk(), "");
}

TEST(Stream, UsageComesAloneAndOnlyIfAsked) {
  TestServer server;
  Client client = server.client();
  stream(client, ",\"stream_options\":{\"include_usage\":true}");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  const auto prompt = std::to_string(server.engine.submitted(0).prompt.size());
  const auto total = std::to_string(server.engine.submitted(0).prompt.size() + 1);
  server.engine.token(0, 10, "a", FinishReason::stop, "stop here");
  EXPECT_EQ(timeless(client.response().body),
            std::string(kHead) + "{\"index\":0,\"text\":\"a\",\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":\"stop here\"}]}\n\n" +
                kHead + "],\"usage\":{\"prompt_tokens\":" + prompt + ",\"total_tokens\":" + total + ",\"completion_tokens\":1}}\n\n" +
                "data: [DONE]\n\n");
}

TEST(Stream, ContinuousUsageIsInEveryEvent) {
  TestServer server;
  Client client = server.client();
  client.post(R"({"prompt":[1,2],"max_tokens":2,"stream":true,"stream_options":{"continuous_usage_stats":true}})");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "a");
  server.engine.token(0, 11, "b", FinishReason::length);
  const std::string body = client.response().body;
  EXPECT_THAT(body, HasSubstr("}],\"usage\":{\"prompt_tokens\":2,\"total_tokens\":3,\"completion_tokens\":1}}\n\n"));
  EXPECT_THAT(body, HasSubstr("}],\"usage\":{\"prompt_tokens\":2,\"total_tokens\":4,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n"));
  EXPECT_THAT(body, Not(HasSubstr("\"choices\":[]")));
}

TEST(Stream, ErrorsComeInTheStreamAndEndIt) {
  TestServer server;
  Client client = server.client();
  stream(client, ",\"n\":2,\"stream_options\":{\"include_usage\":true}");
  ASSERT_TRUE(server.engine.wait_submitted(2));
  server.engine.token(0, 10, "a");
  client.head();
  client.chunk();
  server.engine.end(1, FinishReason::error, "step 7 failed");
  EXPECT_EQ(client.chunk(),
            "data: {\"error\":{\"message\":\"step 7 failed\",\"type\":\"InternalServerError\",\"param\":null,\"code\":500}}\n\n"
            "data: [DONE]\n\n");
  EXPECT_EQ(client.chunk(), "");
  EXPECT_TRUE(server.engine.wait_aborted(0));
}

TEST(Stream, AnErrorBeforeTheFirstTokenIsAStatus) {
  TestServer server;
  Client client = server.client();
  stream(client);
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.end(0, FinishReason::error, "step 7 failed");
  EXPECT_EQ(client.response().status, 500);
}

TEST(Stream, Http10GetsItUntilTheEndOfTheConnection) {
  TestServer server;
  Client client = server.client();
  const std::string body = R"({"prompt":"a","stream":true,"max_tokens":1})";
  client.send("POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "x", FinishReason::length);
  const Response response = client.response();
  EXPECT_EQ(response.headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(response.headers.at("connection"), "close");
  EXPECT_THAT(response.body, EndsWith("}\n\ndata: [DONE]\n\n"));
}

TEST(Stream, ADisconnectedReaderAborts) {
  TestServer server;
  {
    Client client = server.client();
    stream(client);
    ASSERT_TRUE(server.engine.wait_submitted(1));
    server.engine.token(0, 10, "x");
    client.head();
    client.chunk();
  }
  EXPECT_TRUE(server.engine.wait_aborted(0));
}

TEST(Stream, AReaderTooFarBehindLosesItsConnection) {
  Options options;
  options.max_unsent_bytes = 256 << 10;
  TestServer server(std::move(options));
  Client client = server.client(4096);
  stream(client);
  ASSERT_TRUE(server.engine.wait_submitted(1));
  const std::string text(64 << 10, 'x');
  // more than the buffers of both ends of a loopback connection hold
  for (int i = 0; i < 1000 && !server.engine.aborted(0); ++i) server.engine.token(0, 10, text);
  EXPECT_TRUE(server.engine.wait_aborted(0));
  EXPECT_TRUE(client.closed_by_server());
}

TEST(Stream, AReaderWhoTakesNothingLosesItsConnection) {
  Options options;
  options.write_timeout = std::chrono::milliseconds(1);
  TestServer server(std::move(options));
  Client client = server.client(4096);
  stream(client);
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, std::string(64 << 20, 'x'));  // beyond the limit of unsent bytes as well, in one write
  EXPECT_TRUE(server.engine.wait_aborted(0));
}

TEST(Stream, LogprobsAreParallelArrays) {
  TestServer server;
  Client client = server.client();
  stream(client, ",\"logprobs\":2");
  ASSERT_TRUE(server.engine.wait_submitted(1));
  EXPECT_EQ(server.engine.submitted(0).sampling.logprobs, 2);
  engine::Output output;
  output.token = server.engine.submitted(0).prompt.front();
  output.text = "x";
  output.logprob = -0.25F;
  output.top = {{*output.token, -0.25F}, {762, -std::numeric_limits<float>::infinity()}};
  server.engine.emit(0, output);
  output.finish = FinishReason::length;
  server.engine.emit(0, output);
  const std::string body = client.response().body;
  EXPECT_THAT(body, HasSubstr("\"logprobs\":{\"text_offset\":[0],\"token_logprobs\":[-0.25],\"tokens\":[\""));
  EXPECT_THAT(body, HasSubstr(":-0.25,\"<|endoftext|>\":-9999"));
  EXPECT_THAT(body, Not(HasSubstr("inf")));
}

TEST(Stream, SixtyFourAtOnceKeepTheirTokensApart) {
  Options options;
  options.io_threads = 2;
  TestServer server(std::move(options));
  constexpr size_t kStreams = 64, kTokens = 32;
  std::vector<Client> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.push_back(server.client());
    clients.back().post("{\"prompt\":[" + std::to_string(i) + "],\"max_tokens\":32,\"stream\":true}");
  }
  ASSERT_TRUE(server.engine.wait_submitted(kStreams));
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t r = 0; r < kStreams; ++r) {
      const int32_t owner = server.engine.submitted(r).prompt[0];
      server.engine.token(r, 10, "<" + std::to_string(owner) + "." + std::to_string(t) + ">",
                          t + 1 == kTokens ? FinishReason::length : FinishReason::none);
    }
  }
  for (size_t i = 0; i < kStreams; ++i) {
    const std::string body = clients[i].response().body;
    std::string text, expected;
    for (size_t t = 0; t < kTokens; ++t) expected += "<" + std::to_string(i) + "." + std::to_string(t) + ">";
    for (size_t at = body.find('<'); at != std::string::npos; at = body.find('<', at + 1)) text += body.substr(at, body.find('>', at) + 1 - at);
    EXPECT_EQ(text, expected);
    EXPECT_THAT(body, EndsWith("data: [DONE]\n\n"));
  }
}

TEST(Drain, AcceptedRequestsRunOnAndNewOnesGet503) {
  TestServer server;
  Client running = server.client(), idle = server.client();
  stream(running);
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "a");
  running.head();
  running.chunk();
  EXPECT_EQ(idle.get("/load").body, "{\"server_load\":1}");
  server.stop();
  // the drain begins on another thread: the first answer that says so is the proof
  Response health = idle.get("/health");
  while (health.status == 200 && health.headers.count("connection") == 0) health = idle.get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.headers.at("retry-after"), "5");
  Client late = server.client();
  late.post(R"({"prompt":"b"})");
  const Response refused = late.response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  EXPECT_EQ(refused.body, "{\"error\":{\"message\":\"The server is shutting down.\",\"type\":\"ServiceUnavailableError\",\"param\":null,\"code\":503}}");
  server.engine.token(0, 11, "b", FinishReason::length);
  EXPECT_THAT(running.chunk(), EndsWith("data: [DONE]\n\n"));
  running.close();
  server.join();
  EXPECT_FALSE(server.engine.aborted(0));
}

TEST(Drain, WhatIsNotDoneInTimeEndsWithAnError) {
  Options options;
  options.shutdown_timeout = std::chrono::milliseconds(1);
  TestServer server(std::move(options));
  Client streaming = server.client(), waiting = server.client();
  stream(streaming);
  ASSERT_TRUE(server.engine.wait_submitted(1));
  server.engine.token(0, 10, "a");
  streaming.head();
  streaming.chunk();
  waiting.post(R"({"prompt":"b"})");
  ASSERT_TRUE(server.engine.wait_submitted(2));
  server.stop();
  EXPECT_EQ(streaming.chunk(),
            "data: {\"error\":{\"message\":\"The server is shutting down.\",\"type\":\"ServiceUnavailableError\",\"param\":null,"
            "\"code\":503}}\n\ndata: [DONE]\n\n");
  EXPECT_EQ(streaming.chunk(), "");
  EXPECT_EQ(waiting.response().status, 503);
  EXPECT_TRUE(server.engine.aborted(0));
  EXPECT_TRUE(server.engine.aborted(1));
  streaming.close();
  waiting.close();
  server.join();
}

TEST(Drain, WithoutRequestsItEndsAtOnce) {
  TestServer server;
  Client idle = server.client();
  EXPECT_EQ(idle.get("/health").status, 200);
  server.stop();
  server.join();
  EXPECT_TRUE(idle.closed_by_server());
}

}  // namespace
}  // namespace hocket::server
