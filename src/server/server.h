// The OpenAI-compatible HTTP server: requests in, engine outputs to sockets. Not here: what a token is (engine, text),
// command lines (cli).
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "telemetry/metrics.h"
#include "text/tokenizer.h"

namespace hocket::server {

struct Options {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;                   ///< 0: the system picks one, see Server::port()
  std::vector<std::string> served_names;  ///< the first is echoed; empty: the engine's model name
  std::string version = "0.1.0";          ///< of GET /version
  int64_t max_request_body_bytes = 32 << 20;
  int64_t max_waiting_requests = 8192;  ///< accepted and beyond what runs at once; more get 429
  int64_t max_connections = 16384;      ///< more wait in the kernel's queue
  int64_t max_unsent_bytes = 4 << 20;   ///< of one stream; a reader further behind loses its connection
  int max_logprobs = 20;
  int io_threads = 1;
  std::chrono::milliseconds header_timeout{10'000}, body_timeout{30'000}, keep_alive_timeout{75'000};
  std::chrono::milliseconds write_timeout{30'000};  ///< a peer that takes nothing for so long loses its connection
  std::chrono::milliseconds shutdown_timeout{30'000};
};

/// Serves one engine on one address. listen() binds, run() serves, stop() may be called from any thread.
class Server {
 public:
  /// Fails (config) naming host and port and the flag to change. `engine`, `tokenizer` and `metrics` outlive the server.
  static Expected<std::unique_ptr<Server>> listen(Options options, engine::Engine& engine, const text::Tokenizer& tokenizer,
                                                  telemetry::Metrics& metrics);
  virtual ~Server() = default;
  virtual uint16_t port() const = 0;
  /// Serves until stop(), then drains; returns when every connection has ended. Called once.
  virtual void run() = 0;
  /// Begins the drain: new requests get 503, accepted ones run on for up to `shutdown_timeout` and are then ended with an
  /// error in their stream. Does not wait; run() returns when it is over. A second call ends them at once.
  virtual void stop() = 0;
};

}  // namespace hocket::server
