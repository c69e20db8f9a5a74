#include "server/completion_reply.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "server/json_text.h"

namespace hocket::server {
namespace {

std::string usage_json(int64_t prompt, int64_t generated) {
  return fmt::format("{{\"prompt_tokens\":{},\"total_tokens\":{},\"completion_tokens\":{}}}", prompt, prompt + generated,
                     generated);
}

/// "finish_reason":…,"stop_reason":… ; a stop token id is a number, a stop string a string, EOS null.
std::string ending_json(const engine::Output& output) {
  std::string json = "\"finish_reason\":";
  if (output.finish == engine::FinishReason::none) return json + "null,\"stop_reason\":null";
  json += fmt::format("\"{}\",\"stop_reason\":", engine::name(output.finish));
  const bool is_id = output.token && output.stop_reason == std::to_string(*output.token);
  if (output.stop_reason.empty()) {
    json += "null";
  } else if (is_id) {
    json += output.stop_reason;
  } else {
    append_json_string(json, output.stop_reason);
  }
  return json;
}

void append_comma(std::string& list) {
  if (!list.empty()) list += ',';
}

}  // namespace

std::string LogprobArrays::key(int32_t id) const {
  const std::string_view bytes = tokenizer_->bytes(id);
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";  // tokens that hold parts of characters would all be U+FFFD
  for (char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

void LogprobArrays::add(const engine::Output& output) {
  const std::string token = key(*output.token);
  for (std::string* list : {&offsets_, &logprobs_, &tokens_, &top_}) append_comma(*list);
  offsets_ += std::to_string(offset_);
  append_json_logprob(logprobs_, output.logprob);
  append_json_string(tokens_, token);
  offset_ += count_characters(token);

  std::set<std::string> used = {token};
  top_ += '{';
  append_json_string(top_, token);
  top_ += ':';
  append_json_logprob(top_, output.logprob);
  for (const engine::TokenLogprob& other : output.top) {
    if (other.id == *output.token) continue;
    std::string name = key(other.id);
    if (!used.insert(name).second) name = fmt::format("token_id:{}", other.id);  // another id with the same text
    top_ += ',';
    append_json_string(top_, name);
    top_ += ':';
    append_json_logprob(top_, other.logprob);
  }
  top_ += '}';
}

std::string LogprobArrays::take() {
  std::string json = fmt::format("{{\"text_offset\":[{}],\"token_logprobs\":[{}],\"tokens\":[{}],\"top_logprobs\":[{}]}}",
                                 offsets_, logprobs_, tokens_, top_);
  for (std::string* list : {&offsets_, &logprobs_, &tokens_, &top_}) list->clear();
  return json;
}

CompletionReply::CompletionReply(ReplyOptions options, std::vector<ChoiceStart> choices, const text::Tokenizer& tokenizer)
    : options_(std::move(options)), open_(choices.size()) {
  head_ = fmt::format("{{\"id\":{},\"object\":\"text_completion\",\"created\":{},\"model\":{},\"choices\":[",
                      json_string(options_.id), options_.created, json_string(options_.model));
  for (ChoiceStart& start : choices) choices_.push_back({std::move(start), LogprobArrays(tokenizer)});
}

void CompletionReply::count(Choice& choice, const engine::Output& output) {
  if (output.token) ++choice.generated;
  if (output.finish == engine::FinishReason::none || choice.finished) return;
  choice.finished = true;
  --open_;
  if (output.finish == engine::FinishReason::error && error_.status == 0) {
    error_ = {.status = 500, .message = output.error.empty() ? "The request failed." : output.error};
  }
}

std::string CompletionReply::usage() const {
  int64_t prompt = 0, generated = 0;
  for (const Choice& choice : choices_) {
    prompt += choice.start.counts_prompt ? choice.start.prompt_tokens : 0;
    generated += choice.generated;
  }
  return usage_json(prompt, generated);
}

void CompletionReply::append_event(std::string& out, size_t index, const engine::Output& output) {
  Choice& choice = choices_[index];
  if (choice.finished) return;
  count(choice, output);
  if (output.finish == engine::FinishReason::error) {
    append_error(out, error_);
    for (Choice& other : choices_) other.finished = true;
    open_ = 0;
    return;
  }
  out += "data: ";
  out += head_;
  fmt::format_to(std::back_inserter(out), "{{\"index\":{},\"text\":", index);
  if (choice.start.echo.empty()) {
    append_json_string(out, output.text);
  } else {
    append_json_string(out, choice.start.echo + output.text);
    choice.start.echo.clear();
  }
  out += ",\"logprobs\":";
  if (options_.logprobs && output.token) {
    choice.logprobs.add(output);
    out += choice.logprobs.take();
  } else {
    out += "null";
  }
  out += ',';
  out += ending_json(output);
  out += "}]";
  if (options_.continuous_usage) out += ",\"usage\":" + usage_json(choice.start.prompt_tokens, choice.generated);
  out += "}\n\n";
}

void CompletionReply::append_end(std::string& out) const {
  if (options_.include_usage && error_.status == 0) out += "data: " + head_ + "],\"usage\":" + usage() + "}\n\n";
  out += "data: [DONE]\n\n";
}

void CompletionReply::append_error(std::string& out, const ApiError& error) {
  out += "data: " + error_body(error) + "\n\n";
}

void CompletionReply::keep(size_t index, const engine::Output& output) {
  Choice& choice = choices_[index];
  if (choice.finished) return;
  count(choice, output);
  choice.text += output.text;
  if (options_.logprobs && output.token) choice.logprobs.add(output);
  if (choice.finished) {
    choice.ending = ending_json(output);
    choice.logprobs_json = options_.logprobs ? choice.logprobs.take() : "null";
  }
}

std::string CompletionReply::body() const {
  std::string out = head_;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    fmt::format_to(std::back_inserter(out), "{}{{\"index\":{},\"text\":", i > 0 ? "," : "", i);
    append_json_string(out, choice.start.echo + choice.text);
    out += ",\"logprobs\":" + choice.logprobs_json + "," + choice.ending + "}";
  }
  return out + "],\"usage\":" + usage() + ",\"system_fingerprint\":" + json_string(options_.fingerprint) + "}";
}

}  // namespace hocket::server
