// One completion request inside the engine: several sequences, one stream of their outputs for one connection.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <tl/expected.hpp>

#include "engine/engine.h"
#include "server/api_error.h"
#include "server/completion_reply.h"
#include "server/completion_request.h"

namespace hocket::server {

using Clock = std::chrono::steady_clock;

/// Shared by the connection that waits for it and by the sinks that the engine holds; a sink may outlive the connection.
class CompletionJob : public std::enable_shared_from_this<CompletionJob> {
 public:
  struct Event {
    size_t choice = 0;
    engine::Output output;
    Clock::time_point when;  ///< when the engine gave it
  };
  /// `wake` is called from any thread when take() has something new; it must not block.
  explicit CompletionJob(std::function<void()> wake) : wake_(std::move(wake)) {}

  /// Tokenises and submits everything, or aborts what was submitted and refuses. `random_seed` stands in for a seed that
  /// was not given. Called once, from any thread.
  tl::expected<std::vector<ChoiceStart>, ApiError> start(CompletionRequest request, uint64_t random_seed,
                                                         engine::Engine& engine, const text::Tokenizer& tokenizer);
  /// The outputs since the last call, in the engine's order.
  std::vector<Event> take();
  /// Nobody waits any more: aborts the sequences that still run, never wakes again. Any thread, any number of times.
  void cancel();

 private:
  class ChoiceSink;
  tl::expected<void, ApiError> submit(std::vector<int32_t> prompt, const CompletionRequest& request, uint64_t seed,
                                      size_t choice, engine::Engine& engine);
  void push(size_t choice, engine::Output output) noexcept;

  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<Event> events_;
  struct Sequence {
    int64_t id = -1;  ///< of the engine; -1: not submitted
    bool finished = false;
  };
  std::vector<Sequence> sequences_;
  engine::Engine* engine_ = nullptr;
  bool cancelled_ = false;
};

/// The seed of a request's choice: the request's own for choice 0, a hash of both for others.
uint64_t choice_seed(uint64_t seed, int64_t choice);

}  // namespace hocket::server
