#include "engine/sequences.h"

#include <algorithm>

namespace hocket::engine {
namespace {

bool has(const std::vector<int32_t>& ids, int32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

}  // namespace

sched::Request Sequences::add(Submission submission, int64_t arrival) {
  const sched::SamplingParams& sampling = submission.sampling;
  text::Detokenizer::Options options{.stop = sampling.stop,
                                     .include_stop = sampling.include_stop_str_in_output,
                                     .special = text::SpecialTokens::skip,
                                     .min_tokens = sampling.min_tokens};
  Open open{submission.sink, sampling, text::Detokenizer(tokenizer_, std::move(options)),
            static_cast<int64_t>(submission.prompt.size()), rules_.tokenless};
  open.too_early.insert(open.too_early.end(), sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
  if (!sampling.ignore_eos) {
    open.too_early.insert(open.too_early.end(), rules_.eos_ids.begin(), rules_.eos_ids.end());
  }
  sched::Request request;
  request.id = submission.id;
  request.sampling = sampling;
  request.prompt_tokens = open.prompt_tokens;
  request.tokens = std::move(submission.prompt);
  request.arrival = arrival;
  open_.emplace(request.id, std::move(open));
  return request;
}

SampleRow Sequences::sample_row(const sched::Request& request) const {
  const Open& open = open_.at(request.id);
  const std::span<const int32_t> tokens(request.tokens);
  const auto prompt = static_cast<size_t>(open.prompt_tokens);
  SampleRow row{.params = &open.sampling, .prompt = tokens.subspan(0, prompt), .generated = tokens.subspan(prompt)};
  row.forbidden = request.generated() < open.sampling.min_tokens ? open.too_early : rules_.tokenless;
  return row;
}

FinishReason Sequences::judge(const Open& open, int32_t token, int64_t generated, Output& output) const {
  const sched::SamplingParams& sampling = open.sampling;
  if (!sampling.ignore_eos && has(rules_.eos_ids, token)) return FinishReason::stop;
  if (has(sampling.stop_token_ids, token)) {
    output.stop_reason = std::to_string(token);
    return FinishReason::stop;
  }
  const bool full = open.prompt_tokens + generated >= rules_.max_model_len;
  return generated >= sampling.max_tokens || full ? FinishReason::length : FinishReason::none;
}

bool Sequences::accept(const sched::Request& request, const Sample& sample) {
  const auto it = open_.find(request.id);
  Open& open = it->second;
  Output output;
  output.request = request.id;
  output.token = sample.token;
  output.logprob = sample.logprob;
  output.top = sample.top;
  output.prompt_tokens = open.prompt_tokens;
  output.generated_tokens = request.generated() + 1;
  output.cached_tokens = request.cached;
  output.finish = judge(open, sample.token, output.generated_tokens, output);
  if (output.finish != FinishReason::stop) {  // the text of a stop token is not part of the answer
    text::Detokenizer::Piece piece = open.detokenizer.append(sample.token);
    output.text = std::move(piece.text);
    if (piece.stopped_by) {
      output.finish = FinishReason::stop;
      output.stop_reason = *piece.stopped_by;
    }
  }
  const bool stopped_by_text = output.finish == FinishReason::stop && !output.stop_reason.empty() &&
                               !has(open.sampling.stop_token_ids, sample.token);
  if (output.finish != FinishReason::none && !stopped_by_text) output.text += open.detokenizer.finish();
  const bool finished = output.finish != FinishReason::none;
  open.sink->on_output(std::move(output));
  if (finished) {
    open_.erase(it);
    ++ended_;
  }
  return finished;
}

void Sequences::end(int64_t id, FinishReason reason, const std::string& error) {
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  Output output;
  output.request = id;
  output.finish = reason;
  output.error = error;
  output.prompt_tokens = it->second.prompt_tokens;
  output.text = it->second.detokenizer.finish();
  it->second.sink->on_output(std::move(output));
  open_.erase(it);
  ++ended_;
}

void Sequences::end_all(FinishReason reason, const std::string& error) {
  while (!open_.empty()) end(open_.begin()->first, reason, error);
}

}  // namespace hocket::engine
