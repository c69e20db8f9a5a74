// How a thread sleeps until another changes something: a futex-like bell over atomics that the caller owns.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/function_ref.h"
#include "device/stream.h"

namespace hocket::comm {

/// The change that done() looks for must be a sequentially consistent store made before ring(): either the sleeper sees
/// it, or the ringer sees the sleeper.
class Doorbell {
 public:
  void ring() {
    if (sleepers_.load() == 0) return;
    { const std::lock_guard lock(mutex_); }  // a sleeper between its check and its sleep holds the mutex
    bell_.notify_all();
  }
  /// Blocks until done() or `deadline`; returns done(). Thread safe.
  bool wait_until(FunctionRef<bool()> done, device::Clock::time_point deadline) {
    // Most waits end within a hand-off; longer spinning would take the core from whom it waits for.
    constexpr auto kSpin = std::chrono::microseconds(2);
    for (const auto end = device::Clock::now() + kSpin; device::Clock::now() < end;) {
      if (done()) return true;
    }
    std::unique_lock lock(mutex_);
    ++sleepers_;
    bool good = done();
    while (!good && bell_.wait_until(lock, deadline) == std::cv_status::no_timeout) good = done();
    --sleepers_;
    return good || done();
  }

 private:
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable bell_;
};

}  // namespace hocket::comm
