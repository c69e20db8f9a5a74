#include "device/cpu/seeded.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "device/cpu/float_mode.h"
#include "device/cpu/progress.h"

namespace hocket::device::cpu {

class SeededDevice::Shuffled final : public Parallel {
 public:
  explicit Shuffled(std::mt19937_64& random) : random_(random) {}
  int width() const override { return kWidth; }
  void run(int64_t count, FunctionRef<void(int64_t, int)> body) override {
    std::vector<int64_t> order(static_cast<size_t>(std::max<int64_t>(count, 0)));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (int64_t index : order) body(index, static_cast<int>(random_() % kWidth));
  }

 private:
  static constexpr int kWidth = 3;
  std::mt19937_64& random_;
};

namespace {

// Its thread is the one that would have to fire it: waiting is of no use.
class SeededSignal final : public Signal {
 public:
  using Signal::Signal;
  bool wait_until(Clock::time_point) const override { return done(); }
};

}  // namespace

class SeededDevice::SeededStream final : public Stream {
 public:
  SeededStream(SeededDevice& device, std::string_view lane) : device_(device), progress_(lane) {
    device_.streams_.push_back(this);
  }
  ~SeededStream() override { std::erase(device_.streams_, this); }
  void launch(Work work) override {
    last_ = work.label;
    queue_.emplace_back(std::move(work));
  }
  Event record() override {
    auto signal = std::make_shared<SeededSignal>(last_);
    queue_.emplace_back(signal);
    return Event(std::move(signal));
  }
  void wait(const Event& event) override { queue_.emplace_back(event); }
  void synchronize() override {
    device_.drain();
    progress_.rethrow();
  }
  void clear_failure() override { progress_.clear(); }
  Device& device() override { return device_; }

  bool empty() const { return queue_.empty(); }
  bool runnable() const {
    if (empty()) return false;
    const auto* event = std::get_if<Event>(&queue_.front());
    return event == nullptr || progress_.failed() || event->done();
  }
  void step() {
    Item item = std::move(queue_.front());
    queue_.pop_front();
    if (auto* work = std::get_if<Work>(&item)) {
      progress_.run(*work, *device_.parallel_);
    } else if (auto* signal = std::get_if<std::shared_ptr<Signal>>(&item)) {
      (*signal)->fire(progress_.reason());
    } else if (!progress_.failed()) {
      progress_.pass(std::get<Event>(item));
    }
  }
  /// REQUIRES: the head is an event.
  std::string blocked() const {
    return fmt::format("{}, waits for {}", progress_.where(),
                       std::get<Event>(queue_.front()).state()->describe());
  }

 private:
  SeededDevice& device_;
  std::deque<Item> queue_;
  Label last_;
  Progress progress_;
};

SeededDevice::SeededDevice(uint64_t seed, Isa isa)
    : random_(seed), isa_(isa), parallel_(std::make_unique<Shuffled>(random_)) {}
SeededDevice::~SeededDevice() = default;

std::unique_ptr<Stream> SeededDevice::make_stream(std::string_view lane) {
  return std::make_unique<SeededStream>(*this, lane);
}

void SeededDevice::drain() {
  const FlushDenormals mode;
  for (std::vector<SeededStream*> runnable;; runnable.clear()) {
    for (SeededStream* stream : streams_) {
      if (stream->runnable()) runnable.push_back(stream);
    }
    if (runnable.empty()) break;
    runnable[random_() % runnable.size()]->step();
  }
  std::string blocked;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i]->empty())
      blocked += fmt::format("\n  stream {} ({})", i, streams_[i]->blocked());
  }
  if (blocked.empty()) return;
  throw InvariantError(
      "deadlock: every stream that has work waits for an event that nobody can fire:" + blocked);
}

}  // namespace hocket::device::cpu
