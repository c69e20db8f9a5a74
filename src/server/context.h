// What all connections of a server share.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <string>

#include "engine/engine.h"
#include "server/server.h"
#include "server/server_metrics.h"

namespace hocket::server {

/// Everything but the atomics is set before the first connection. `run_on_worker` runs long work (a body's parse, its
/// tokenisation) off the I/O threads, in order.
struct Context {
  Options options;
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  ServerMetrics metrics;
  int64_t started = 0;  ///< Unix seconds
  std::array<uint32_t, 2> random_key{};
  std::function<void(std::function<void()>)> run_on_worker{};
  std::function<void()> on_job_ended{};
  std::atomic<bool> draining{false};
  std::atomic<int64_t> jobs{0};  ///< completions between their request and the last byte of their response
  std::atomic<uint64_t> tickets{0};

  /// 128 bits for names and seeds, different for each call. Not for secrets.
  std::array<uint32_t, 4> random();
  std::string random_id();  ///< 32 hexadecimal digits
  uint64_t random_seed();
  bool serves(std::string_view model) const;
  const std::string& model_name() const { return options.served_names.front(); }
};

}  // namespace hocket::server
