// The requests of one rank as their callers see them: text, stop conditions, and what is sent to the sinks.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/sampler.h"
#include "text/detokenizer.h"

namespace hocket::engine {

/// What ends a sequence, equal for all requests of an engine.
struct EndRules {
  std::vector<int32_t> eos_ids;
  std::vector<int32_t> tokenless;  ///< ids of the vocabulary without a token: never sampled
  int64_t max_model_len = 0;
};

/// Used by the rank's thread alone.
class Sequences {
 public:
  Sequences(const text::Tokenizer& tokenizer, EndRules rules) : tokenizer_(tokenizer), rules_(std::move(rules)) {}
  /// Starts to track a request; the scheduler's copy is made from the result.
  sched::Request add(Submission submission, int64_t arrival);
  /// How to sample the next token of a request. Valid until the request changes.
  SampleRow sample_row(const sched::Request& request) const;
  /// A token was sampled: sends it, and says whether the sequence is finished. `request` does not hold the token yet.
  bool accept(const sched::Request& request, const Sample& sample);
  /// Ends a request without a token.
  void end(int64_t id, FinishReason reason, const std::string& error);
  void end_all(FinishReason reason, const std::string& error);
  bool contains(int64_t id) const { return open_.contains(id); }
  int64_t ended() const { return ended_; }  ///< how many so far

 private:
  struct Open {
    std::shared_ptr<Sink> sink;
    sched::SamplingParams sampling;
    text::Detokenizer detokenizer;
    int64_t prompt_tokens = 0;
    std::vector<int32_t> too_early;  ///< forbidden ids while min_tokens are not reached
  };
  FinishReason judge(const Open& open, int32_t token, int64_t generated, Output& output) const;
  const text::Tokenizer& tokenizer_;
  EndRules rules_;
  std::map<int64_t, Open> open_;
  int64_t ended_ = 0;
};

}  // namespace hocket::engine
