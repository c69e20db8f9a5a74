// What the engine is asked for, and the life of a request while it is scheduled.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hocket::sched {

/// Values out of range are refused before a request gets here (engine::validate).
struct SamplingParams {
  float temperature = 1.0F;  ///< 0: greedy
  float top_p = 1.0F, min_p = 0.0F;
  int top_k = 0;  ///< 0 and -1: all
  float presence_penalty = 0.0F, frequency_penalty = 0.0F, repetition_penalty = 1.0F;
  uint64_t seed = 0;
  int64_t max_tokens = 16, min_tokens = 0;
  bool ignore_eos = false;
  std::vector<int32_t> stop_token_ids{};
  std::vector<std::string> stop{};
  bool include_stop_str_in_output = false;
  int logprobs = -1;  ///< -1: none; n: the n most likely beside the chosen one
};

enum class State : uint8_t { waiting, running, finished };

/// One sequence. Owned by the scheduler; the engine appends tokens after a successful step.
struct Request {
  int64_t id = 0;
  SamplingParams sampling{};
  std::vector<int32_t> tokens{};  ///< prompt, then generated
  int64_t prompt_tokens = 0;
  int64_t computed = 0;  ///< tokens whose K/V are in the cache
  int64_t cached = 0;    ///< of them, taken from the prefix cache when first admitted
  int64_t preemptions = 0;
  State state = State::waiting;
  std::vector<int32_t> blocks{};
  int64_t arrival = 0;  ///< admission order: smaller is older
  int64_t generated() const { return static_cast<int64_t>(tokens.size()) - prompt_tokens; }
};

}  // namespace hocket::sched
