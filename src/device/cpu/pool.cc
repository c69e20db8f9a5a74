#include "device/cpu/pool.h"

#include <fmt/format.h>
#include <pthread.h>

#include "device/cpu/float_mode.h"

namespace hocket::device::cpu {
namespace {

// Ten to twenty microseconds, the time of a launch that runs on one thread: a worker that slept
// through each of those would be woken dozens of times a step.
constexpr int kSpins = 500;

}  // namespace

Pool::Pool(int width) {
  if (width < 1) throw InvariantError(fmt::format("a pool of {} threads: at least 1", width));
  threads_.reserve(static_cast<size_t>(width) - 1);
  for (int worker = 1; worker < width; ++worker)
    threads_.emplace_back([this, worker] { serve(worker); });
}

Pool::~Pool() {
  stopping_.store(true, std::memory_order_release);
  start_.ring();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::run(int64_t count, Body body) {
  if (count <= 1 || threads_.empty()) {
    for (int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  body_ = &body;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  members_.store(0, std::memory_order_release);  // opens the job
  start_.ring();
  take(0);
  close();
  if (failed_.load(std::memory_order_relaxed)) {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void Pool::serve(int worker) {
  pthread_setname_np(pthread_self(), fmt::format("worker {}", worker).c_str());
  const FlushDenormals mode;
  for (uint32_t seen = 0; !stopping_.load(std::memory_order_acquire);) {
    start_.wait(seen, Bell::idle_deadline(), kSpins);
    seen = start_.count();
    if (!join()) continue;
    take(worker);
    leave();
  }
}

bool Pool::join() {
  int members = members_.load(std::memory_order_acquire);
  while (members != kClosed) {
    if (members_.compare_exchange_weak(members, members + 1, std::memory_order_acq_rel))
      return true;
  }
  return false;
}

void Pool::leave() {
  if (members_.fetch_sub(1, std::memory_order_acq_rel) == 1) empty_.ring();
}

void Pool::close() {
  for (;;) {
    const uint32_t seen = empty_.count();
    int members = 0;
    if (members_.compare_exchange_strong(members, kClosed, std::memory_order_acq_rel)) return;
    empty_.wait(seen, Bell::idle_deadline());
  }
}

void Pool::take(int worker) {
  try {
    for (;;) {
      const int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      (*body_)(index, worker);
    }
  } catch (...) {
    if (!failed_.exchange(true, std::memory_order_acq_rel)) error_ = std::current_exception();
    next_.store(count_, std::memory_order_relaxed);  // the result is lost: skip the rest
  }
}

}  // namespace hocket::device::cpu
