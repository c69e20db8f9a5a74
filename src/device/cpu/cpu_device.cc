#include "device/cpu/cpu_device.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <thread>

#include "device/cpu/float_mode.h"
#include "device/cpu/pool.h"
#include "device/cpu/queue.h"

namespace hocket::device::cpu {
namespace {

class CpuStream final : public Stream {
 public:
  CpuStream(CpuDevice& device, std::string_view lane, int width,
            const CpuOptions& options)
      : device_(device),
        progress_(lane),
        pool_(width),
        wait_timeout_(options.wait_timeout),
        recorder_(options.recorder != nullptr ? &options.recorder->lane(options.rank, lane)
                                              : nullptr),
        thread_([this] { serve(); }) {
    pthread_setname_np(thread_.native_handle(), std::string(lane.substr(0, 15)).c_str());
  }
  ~CpuStream() override {
    stopping_.store(true, std::memory_order_release);
    queue_.push(std::monostate{});
    thread_.join();
  }
  void launch(Work work) override {
    last_ = work.label;
    push(std::move(work));
  }
  Event record() override {
    auto signal = std::make_shared<Signal>(last_);
    push(signal);
    return Event(std::move(signal));
  }
  void wait(const Event& event) override {
    if (event.state() != nullptr) push(event);
  }
  void synchronize() override {
    // Bounded: bodies end, and the thread waits at most wait_timeout for each event.
    if (pending_) {
      const Event tail = record();
      while (!tail.state()->wait_until(Bell::idle_deadline())) continue;
      pending_ = false;
    }
    progress_.rethrow();
  }
  void clear_failure() override { progress_.clear(); }
  Device& device() override { return device_; }

 private:
  template <class T>
  void push(T&& item) {
    pending_ = true;
    queue_.push(std::forward<T>(item));
  }
  void serve();
  void execute(Item& item);
  void run(Work& work);
  void await(const Event& event);

  CpuDevice& device_;
  Queue queue_;
  Label last_;            // the host's: the last work enqueued
  bool pending_ = false;  // the host's: something was enqueued since synchronize(); if not, nobody need be woken
  Progress progress_;
  Pool pool_;
  const std::chrono::milliseconds wait_timeout_;
  LaneRecorder* const recorder_;  // written by thread_ only; null: no trace
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

void CpuStream::serve() {
  const FlushDenormals mode;
  for (;;) {
    Item& item = queue_.front();
    if (std::holds_alternative<std::monostate>(item)) return;
    if (stopping_.load(std::memory_order_acquire))
      progress_.cancel("the stream was destroyed with work queued");
    execute(item);
    queue_.pop();
  }
}

void CpuStream::execute(Item& item) {
  if (auto* work = std::get_if<Work>(&item)) {
    run(*work);
  } else if (auto* signal = std::get_if<std::shared_ptr<Signal>>(&item)) {
    (*signal)->fire(progress_.reason());
  } else {
    await(std::get<Event>(item));
  }
}

void CpuStream::run(Work& work) {
  if (recorder_ == nullptr || progress_.failed()) {
    progress_.run(work, pool_);
    return;
  }
  const auto begin = Clock::now();
  progress_.run(work, pool_);
  recorder_->add(work.label, work.cost, begin, Clock::now());
}

void CpuStream::await(const Event& event) {
  if (progress_.failed()) return;
  if (event.done() || event.state()->wait_until(Clock::now() + wait_timeout_)) {
    progress_.pass(event);
  } else {
    progress_.time_out(event, wait_timeout_);
  }
}

}  // namespace

CpuDevice::CpuDevice(CpuOptions options) : options_(options) {
  if (options.threads < 1) {
    throw Error(Code::config,
                fmt::format("{} compute threads a rank: at least 1 is needed", options.threads));
  }
}

std::unique_ptr<Stream> CpuDevice::make_stream(std::string_view lane) {
  const int width = lane == "compute" ? options_.threads : 1;
  return std::make_unique<CpuStream>(*this, lane, width, options_);
}

}  // namespace hocket::device::cpu
