#include "server/completion_job.h"

#include <fmt/format.h>

#include "base/rng.h"

namespace hocket::server {
namespace {

using Prompts = std::vector<std::vector<int32_t>>;

ApiError to_api(const Failure& failure) {
  switch (failure.code) {
    case Code::bad_input: return {.status = 400, .message = failure.message};
    case Code::aborted: return {.status = 503, .message = failure.message};
    case Code::capacity: return {.status = 400, .message = failure.message};
    default: return {.status = 500, .message = failure.message};
  }
}

tl::expected<Prompts, ApiError> tokenize(CompletionRequest& request, const text::Tokenizer& tokenizer, int64_t max_model_len) {
  using AddSpecial = text::Tokenizer::AddSpecial;
  Prompts prompts;
  for (auto& prompt : request.prompts) {
    if (auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) {
      prompts.push_back(request.echo ? *ids : std::move(*ids));
    } else {
      auto encoded = tokenizer.encode(std::get<std::string>(prompt),
                                      request.add_special_tokens ? AddSpecial::on : AddSpecial::off);
      if (!encoded) return tl::unexpected(to_api(encoded.error()));
      prompts.push_back(std::move(*encoded));
    }
    const auto length = static_cast<int64_t>(prompts.back().size());
    const int64_t wanted = request.sampling.max_tokens;
    if (length < max_model_len || (wanted == 0 && length == max_model_len)) continue;
    return tl::unexpected(ApiError{
        .status = 400,
        .message = fmt::format("This model's maximum context length is {} tokens. However, you requested {} output tokens and "
                               "your prompt contains {} input tokens, for a total of {} tokens. Please reduce the length of "
                               "the input prompt or the number of requested output tokens.",
                               max_model_len, wanted, length, wanted + length),
        .param = "prompt"});
  }
  return prompts;
}

std::string echo_of(const CompletionRequest& request, size_t prompt, const text::Tokenizer& tokenizer) {
  if (!request.echo) return {};
  const auto& given = request.prompts[prompt];
  if (const auto* text = std::get_if<std::string>(&given)) return *text;
  return tokenizer.decode(std::get<std::vector<int32_t>>(given));
}

}  // namespace

uint64_t choice_seed(uint64_t seed, int64_t choice) {
  if (choice == 0) return seed;
  const auto r = philox({static_cast<uint32_t>(choice), 0, 0, 0},
                        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{r[0]} << 32 | r[1];
}

class CompletionJob::ChoiceSink final : public engine::Sink {
 public:
  ChoiceSink(std::shared_ptr<CompletionJob> job, size_t choice) : job_(std::move(job)), choice_(choice) {}
  void on_output(engine::Output output) noexcept override { job_->push(choice_, std::move(output)); }

 private:
  std::shared_ptr<CompletionJob> job_;  // owners: this sink and the connection
  size_t choice_;
};

void CompletionJob::push(size_t choice, engine::Output output) noexcept {
  const std::lock_guard lock(mutex_);
  if (output.finish != engine::FinishReason::none) sequences_[choice].finished = true;
  if (cancelled_) return;
  events_.push_back({choice, std::move(output), Clock::now()});
  if (events_.size() == 1 && wake_) wake_();
}

tl::expected<void, ApiError> CompletionJob::submit(std::vector<int32_t> prompt, const CompletionRequest& request,
                                                   uint64_t seed, size_t choice, engine::Engine& engine) {
  if (request.sampling.max_tokens == 0) {  // echo alone: nothing to generate
    engine::Output output;
    output.finish = engine::FinishReason::length;
    push(choice, std::move(output));
    return {};
  }
  sched::SamplingParams sampling = request.sampling;
  sampling.seed = seed;
  auto id = engine.submit(std::move(prompt), std::move(sampling), std::make_shared<ChoiceSink>(shared_from_this(), choice));
  if (!id) return tl::unexpected(to_api(id.error()));
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    sequences_[choice].id = *id;
    cancelled = cancelled_;
  }
  if (cancelled) engine.abort(*id);
  return {};
}

tl::expected<std::vector<ChoiceStart>, ApiError> CompletionJob::start(CompletionRequest request, uint64_t random_seed,
                                                                      engine::Engine& engine,
                                                                      const text::Tokenizer& tokenizer) {
  auto prompts = tokenize(request, tokenizer, engine.summary().max_model_len);
  if (!prompts) return tl::unexpected(prompts.error());
  const auto choices = static_cast<size_t>(request.choices);
  {
    const std::lock_guard lock(mutex_);
    engine_ = &engine;
    sequences_.resize(prompts->size() * choices);
  }
  const uint64_t seed = request.seed.value_or(random_seed);
  std::vector<ChoiceStart> starts;
  for (size_t p = 0; p < prompts->size(); ++p) {
    for (size_t c = 0; c < choices; ++c) {
      starts.push_back({.prompt_tokens = static_cast<int64_t>((*prompts)[p].size()),
                        .counts_prompt = c == 0,
                        .echo = echo_of(request, p, tokenizer)});
      const bool last = c + 1 == choices;
      auto submitted = submit(last ? std::move((*prompts)[p]) : (*prompts)[p], request,
                              choice_seed(seed, static_cast<int64_t>(c)), p * choices + c, engine);
      if (submitted) continue;
      cancel();
      return tl::unexpected(submitted.error());
    }
  }
  return starts;
}

std::vector<CompletionJob::Event> CompletionJob::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

void CompletionJob::cancel() {
  std::vector<int64_t> running;
  engine::Engine* engine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    wake_ = nullptr;
    events_.clear();
    engine = engine_;
    for (const Sequence& sequence : sequences_) {
      if (sequence.id >= 0 && !sequence.finished) running.push_back(sequence.id);
    }
  }
  for (int64_t id : running) engine->abort(id);  // outside the lock: the engine may be giving us an output
}

}  // namespace hocket::server
