#include "device/cpu/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace hocket::device::cpu {
namespace {

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Sleeps while `word` is `value`. False: the deadline passed.
bool sleep(std::atomic<uint32_t>& word, uint32_t value, Clock::time_point deadline) {
  const auto since_boot = deadline.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  const timespec until{static_cast<time_t>(seconds.count()),
                       static_cast<long>((since_boot - seconds).count())};
  // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC, which is steady_clock here.
  const long result =
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
              value, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
  return result == 0 || errno != ETIMEDOUT;
}

}  // namespace

bool Bell::wait(uint32_t seen, Clock::time_point deadline, int spins) const {
  for (int i = 0; i < spins; ++i) {
    if (count() != seen) return true;
    relax();
  }
  for (;;) {
    uint32_t word = word_.load(std::memory_order_acquire);
    if (word >> 1 != seen) return true;
    if ((word & 1) == 0 && !word_.compare_exchange_weak(word, word | 1)) continue;
    if (!sleep(word_, word | 1, deadline)) return count() != seen;
  }
}

void Bell::wake() {
  word_.fetch_and(~uint32_t{1});  // who goes to sleep from here on sets it again
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX,
          nullptr, nullptr, 0);
}

}  // namespace hocket::device::cpu
