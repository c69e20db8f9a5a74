// A counter that threads wait on: they spin for about a microsecond, then sleep on a futex.
#pragma once
#include <atomic>
#include <cstdint>

#include "device/stream.h"

namespace hocket::device::cpu {

/// Thread safe. ring() releases what was written before it to those who see the new count. Ringing
/// while nobody sleeps costs one atomic addition; the system is asked only when somebody does.
class Bell {
 public:
  /// One or two microseconds. Longer would take the core from the thread that is awaited: ranks, their
  /// comm threads and their hosts outnumber the cores.
  static constexpr int kSpins = 40;
  static constexpr uint32_t kMask =
      0x7FFFFFFF;  ///< counts wrap at 31 bits: compare them for equality only
  uint32_t count() const { return word_.load(std::memory_order_acquire) >> 1; }
  void ring() {
    if ((word_.fetch_add(2, std::memory_order_acq_rel) & 1) != 0) wake();
  }
  /// Returns count() != seen, as soon as that is true or at the deadline. An idle thread, which
  /// waits for as long as it takes, passes idle_deadline() in a loop: a wake-up can then be late,
  /// but never be lost.
  bool wait(uint32_t seen, Clock::time_point deadline, int spins = kSpins) const;
  static Clock::time_point idle_deadline() { return Clock::now() + std::chrono::seconds(1); }

 private:
  void wake();
  mutable std::atomic<uint32_t> word_{0};  // count * 2 + 1 if a thread may be asleep
};

}  // namespace hocket::device::cpu
