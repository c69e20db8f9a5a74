// Tests only: an engine whose outputs the test gives.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "engine/engine.h"

namespace hocket::server {

constexpr std::chrono::seconds kPatience{20};  // an upper bound that only a failing test reaches

class FakeEngine final : public engine::Engine {
 public:
  struct Submitted {
    std::vector<int32_t> prompt;
    sched::SamplingParams sampling;
    std::shared_ptr<engine::Sink> sink;  // owners: this engine and the server
    int64_t generated = 0;
  };

  FakeEngine() {
    summary_.model.name = "tiny";
    summary_.model.vocab = 1024;
    summary_.max_model_len = 64;
    summary_.max_seqs = 128;
  }
  Expected<int64_t> submit(std::vector<int32_t> prompt, sched::SamplingParams sampling,
                           std::shared_ptr<engine::Sink> sink) override {
    const std::lock_guard lock(mutex_);
    if (refusal_ && refusal_after_-- == 0) return tl::unexpected(*refusal_);
    submitted_.push_back({std::move(prompt), std::move(sampling), std::move(sink)});
    changed_.notify_all();
    return static_cast<int64_t>(submitted_.size()) - 1;
  }
  void abort(int64_t request) override {
    const std::lock_guard lock(mutex_);
    aborted_.insert(request);
    submitted_[static_cast<size_t>(request)].sink.reset();
    changed_.notify_all();
  }
  engine::Health health() const override { return health_; }
  std::string failure() const override { return "rank 1: lost"; }
  const engine::Summary& summary() const override { return summary_; }
  int64_t running() const override {
    const std::lock_guard lock(mutex_);
    return busy_ + static_cast<int64_t>(std::count_if(submitted_.begin(), submitted_.end(),
                                                      [](const Submitted& s) { return s.sink != nullptr; }));
  }
  bool drain(std::chrono::milliseconds) override { return true; }

  /// Waits for `count` requests in all.
  [[nodiscard]] bool wait_submitted(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return submitted_.size() >= count; });
  }
  [[nodiscard]] bool wait_aborted(int64_t request) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return aborted_.count(request) != 0; });
  }
  Submitted submitted(size_t index) const {
    const std::lock_guard lock(mutex_);
    return submitted_.at(index);
  }
  size_t num_submitted() const {
    const std::lock_guard lock(mutex_);
    return submitted_.size();
  }
  bool aborted(int64_t request) const {
    const std::lock_guard lock(mutex_);
    return aborted_.count(request) != 0;
  }

  /// Gives one output, as a rank's thread would.
  void emit(size_t request, engine::Output output) {
    std::shared_ptr<engine::Sink> sink;
    {
      const std::lock_guard lock(mutex_);
      Submitted& s = submitted_.at(request);
      if (output.token) ++s.generated;
      output.request = static_cast<int64_t>(request);
      output.generated_tokens = s.generated;
      output.prompt_tokens = static_cast<int64_t>(s.prompt.size());
      sink = output.finish == engine::FinishReason::none ? s.sink : std::move(s.sink);
    }
    if (sink) sink->on_output(std::move(output));
  }
  void token(size_t request, int32_t id, std::string text, engine::FinishReason finish = engine::FinishReason::none,
             std::string stop_reason = "") {
    engine::Output output;
    output.token = id;
    output.text = std::move(text);
    output.finish = finish;
    output.stop_reason = std::move(stop_reason);
    emit(request, std::move(output));
  }
  void end(size_t request, engine::FinishReason finish, std::string error) {
    engine::Output output;
    output.finish = finish;
    output.error = std::move(error);
    emit(request, std::move(output));
  }

  void set_health(engine::Health health) { health_ = health; }
  void set_busy(int64_t busy) { busy_ = busy; }
  void refuse(Failure failure, int after) {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(failure);
    refusal_after_ = after;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Submitted> submitted_;
  std::set<int64_t> aborted_;
  std::atomic<engine::Health> health_{engine::Health::ready};
  std::atomic<int64_t> busy_{0};
  std::optional<Failure> refusal_;
  int refusal_after_ = 0;
  engine::Summary summary_;
};

}  // namespace hocket::server
