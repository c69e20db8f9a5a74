// Tests only: a server with a fake engine on a port that the system picks.
#pragma once
#include <filesystem>
#include <thread>

#include "server/fake_engine.h"
#include "server/server.h"
#include "server/test_client.h"

namespace hocket::server {

class TestServer {
 public:
  explicit TestServer(Options options = {}) : tokenizer_(load()) {
    options.port = 0;
    auto listening = Server::listen(std::move(options), engine, tokenizer_, metrics);
    if (!listening) throw std::runtime_error(listening.error().message);
    server_ = std::move(*listening);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~TestServer() { finish(); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  Client client(int receive_buffer = 0) const { return Client(server_->port(), receive_buffer); }
  uint16_t port() const { return server_->port(); }
  void stop() { server_->stop(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  void finish() {
    if (!thread_.joinable()) return;
    server_->stop();
    server_->stop();
    join();
  }

  FakeEngine engine;
  telemetry::Metrics metrics;

 private:
  static text::Tokenizer load() {
    auto loaded = text::Tokenizer::load(std::filesystem::path(HOCKET_SOURCE_DIR) / "models/tiny-moe-fp8/tokenizer.json");
    if (!loaded) throw std::runtime_error(loaded.error().message);
    return std::move(*loaded);
  }
  text::Tokenizer tokenizer_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

/// The time of day out of a reply, so that it can be compared byte by byte.
inline std::string timeless(std::string body) {
  constexpr std::string_view kKey = "\"created\":";
  for (size_t at = body.find(kKey); at != std::string::npos; at = body.find(kKey, at + 1)) {
    const size_t first = at + kKey.size();
    body.replace(first, body.find_first_not_of("0123456789", first) - first, "0");
  }
  return body;
}

}  // namespace hocket::server
