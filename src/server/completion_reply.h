// What a completion looks like on the wire: server-sent events, or one JSON object. No HTTP, no sockets.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api_error.h"
#include "text/tokenizer.h"

namespace hocket::server {

struct ReplyOptions {
  std::string id, model, fingerprint;
  int64_t created = 0;  ///< Unix seconds
  bool include_usage = false, continuous_usage = false;
  bool logprobs = false;
};

/// One sequence of a request: choice index = prompt index x n + choice.
struct ChoiceStart {
  int64_t prompt_tokens = 0;
  bool counts_prompt = true;  ///< the first of a prompt's choices
  std::string echo;           ///< text that goes before the first token's
};

/// The parallel arrays of OpenAI's completion logprobs.
class LogprobArrays {
 public:
  explicit LogprobArrays(const text::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  void add(const engine::Output& output);
  /// {"text_offset":[..],"token_logprobs":[..],"tokens":[..],"top_logprobs":[..]}; starts anew, offsets go on.
  std::string take();

 private:
  std::string key(int32_t id) const;
  const text::Tokenizer* tokenizer_;
  std::string offsets_, logprobs_, tokens_, top_;
  int64_t offset_ = 0;  // characters of the tokens so far
};

/// Takes outputs in the order of each choice and writes what the client gets. One thread.
class CompletionReply {
 public:
  CompletionReply(ReplyOptions options, std::vector<ChoiceStart> choices, const text::Tokenizer& tokenizer);

  /// Streaming: appends the event of one output to `out`; an error output appends the error event and ends all choices.
  void append_event(std::string& out, size_t choice, const engine::Output& output);
  /// Streaming, once, after the last output or append_error(): usage if asked for, then [DONE].
  void append_end(std::string& out) const;
  static void append_error(std::string& out, const ApiError& error);

  /// Not streaming: keeps one output for body().
  void keep(size_t choice, const engine::Output& output);
  std::string body() const;

  bool finished() const { return open_ == 0; }
  /// The first error output, if there was one: `status` is not 0.
  const ApiError& error() const { return error_; }

 private:
  struct Choice {
    ChoiceStart start;
    LogprobArrays logprobs;
    int64_t generated = 0;
    bool finished = false;
    std::string text{}, logprobs_json{}, ending{};  // kept for body()
  };
  void count(Choice& choice, const engine::Output& output);
  std::string usage() const;

  ReplyOptions options_;
  std::string head_;  // {"id":…,"object":…,"created":…,"model":…,"choices":[
  std::vector<Choice> choices_;
  size_t open_;
  ApiError error_{.status = 0, .message = {}};
};

}  // namespace hocket::server
