#include "cli/offline.h"

#include <condition_variable>
#include <mutex>

#include <fmt/format.h>

#include "base/rng.h"

namespace hocket::cli {
namespace {

/// Counts finished prompts; shared by the sinks and the waiting caller.
class Countdown {
 public:
  explicit Countdown(size_t count, const std::function<void(size_t)>& progress) : open_(count), progress_(progress) {}
  void finish_one() {
    const std::lock_guard lock(mutex_);
    --open_;
    ++done_;
    if (progress_) progress_(done_);
    if (open_ == 0) changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0; });  // the engine ends every accepted request
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t open_, done_ = 0;
  const std::function<void(size_t)>& progress_;
};

class Collector final : public engine::Sink {
 public:
  Collector(Completion& out, Countdown& countdown) : out_(out), countdown_(countdown) {}
  void on_output(engine::Output output) noexcept override {
    if (output.token) {
      out_.ids.push_back(*output.token);
      out_.logprobs.push_back(output.logprob);
    }
    out_.text += output.text;
    if (output.finish == engine::FinishReason::none) return;
    out_.finish = output.finish;
    out_.stop_reason = std::move(output.stop_reason);
    out_.error = std::move(output.error);
    countdown_.finish_one();
  }

 private:
  Completion& out_;
  Countdown& countdown_;
};

}  // namespace

std::vector<Prompt> random_prompts(int64_t count, int64_t input_len, int64_t output_len, const text::Tokenizer& tokenizer,
                                   uint64_t seed) {
  std::vector<int32_t> allowed;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.known(id) && !tokenizer.is_special(id)) allowed.push_back(id);
  }
  std::vector<Prompt> prompts;
  for (int64_t i = 0; i < count; ++i) {
    Prompt prompt{{}, {.temperature = 0, .max_tokens = output_len, .ignore_eos = true}};
    for (int64_t j = 0; j < input_len; ++j) {
      const double draw = uniform(seed, static_cast<uint64_t>(i), static_cast<uint64_t>(j));
      prompt.ids.push_back(allowed[static_cast<size_t>(draw * static_cast<double>(allowed.size()))]);
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Expected<std::vector<Completion>> complete(engine::Engine& engine, std::vector<Prompt> prompts,
                                           const std::function<void(size_t)>& progress) {
  std::vector<Completion> completions(prompts.size());
  Countdown countdown(prompts.size(), progress);
  Expected<void> refused;
  std::vector<int64_t> accepted;
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (refused) {
      auto id = engine.submit(std::move(prompts[i].ids), std::move(prompts[i].sampling),
                              std::make_shared<Collector>(completions[i], countdown));
      if (id) {
        accepted.push_back(*id);
        continue;
      }
      refused = fail(id.error().code, fmt::format("prompt {}: {}", i, id.error().message));
      for (int64_t earlier : accepted) engine.abort(earlier);
    }
    countdown.finish_one();
  }
  countdown.wait();
  if (!refused) return tl::unexpected(refused.error());
  for (size_t i = 0; i < completions.size(); ++i) {
    if (completions[i].finish == engine::FinishReason::error || completions[i].finish == engine::FinishReason::abort) {
      return fail(Code::internal, fmt::format("prompt {}: {}", i, completions[i].error));
    }
  }
  return completions;
}

}  // namespace hocket::cli
