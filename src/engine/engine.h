// The whole of inference behind one door: ranks as threads, requests in, tokens out. Thread safe.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/config.h"
#include "sched/request.h"
#include "telemetry/metrics.h"
#include "text/tokenizer.h"

namespace hocket::engine {

enum class FinishReason : uint8_t { none, stop, length, abort, error };
std::string_view name(FinishReason reason);

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;  ///< raw log-softmax, before temperature and penalties
};

/// One generated token, or the end without one (abort, error).
struct Output {
  int64_t request = 0;
  std::optional<int32_t> token;
  std::string text;  ///< safe to send; may be empty while a character or a stop string is incomplete
  float logprob = 0;
  std::vector<TokenLogprob> top;  ///< the most likely, best first, if SamplingParams::logprobs > 0
  FinishReason finish = FinishReason::none;
  std::string stop_reason;  ///< the stop string, or the decimal stop token id; empty for EOS
  std::string error;        ///< with FinishReason::error: one line
  int64_t prompt_tokens = 0, generated_tokens = 0, cached_tokens = 0;
};

/// Receives one request's outputs in order, from a rank's thread: it must not block and must not throw. Shared between
/// the caller and the engine, which lets go of it after the output with a finish reason.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void on_output(Output output) noexcept = 0;
};

/// What start-up decided: the lines of the start-up table and of `hocket --version`-like reports.
struct Summary {
  model::ModelConfig model;
  int ranks = 1, expert_ranks = 1;
  int64_t experts_per_rank = 0;
  std::string backend, dbo, isa;  ///< dbo: "on, 2 ubatches, policy auto, ..." or "off: reason"
  std::string prefix_cache;       ///< "on" or "off"
  int64_t kv_blocks = 0, block_size = 0, max_model_len = 0, threads_per_rank = 1;
  int64_t kv_bytes = 0, weight_bytes = 0;
  int64_t max_seqs = 0, max_batched_tokens = 0;
  std::vector<std::pair<std::string, std::string>> table() const;  ///< label, value
};

enum class Health : uint8_t { ready, draining, failed };

class Engine {
 public:
  /// Validates, loads the weights of every rank in parallel, starts the ranks. `tokenizer` outlives the engine.
  static Expected<std::unique_ptr<Engine>> start(Config config, const text::Tokenizer& tokenizer,
                                                 telemetry::Metrics& metrics);
  virtual ~Engine() = default;
  /// Fails (bad_input) for an empty prompt, ids out of range, a prompt that leaves no room in the context, parameters
  /// out of range; (aborted) while draining or failed. max_tokens is capped to the context. Returns the request's id.
  virtual Expected<int64_t> submit(std::vector<int32_t> prompt, sched::SamplingParams sampling,
                                   std::shared_ptr<Sink> sink) = 0;
  virtual void abort(int64_t request) = 0;  ///< ends it with FinishReason::abort at the next step boundary
  virtual Health health() const = 0;
  virtual std::string failure() const = 0;  ///< why health() is failed
  virtual const Summary& summary() const = 0;
  virtual int64_t running() const = 0;  ///< requests accepted and not finished
  /// No new requests; returns when all accepted ones ended, or false at the deadline.
  virtual bool drain(std::chrono::milliseconds limit) = 0;
};

}  // namespace hocket::engine
