// The threads of a compute stream.
#pragma once
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "device/cpu/bell.h"
#include "device/stream.h"

namespace hocket::device::cpu {

/// `width - 1` threads and the caller of run(), who take indices from one counter. A thread that is
/// still waking up when the indices have run out is not waited for. run() is for one thread at a
/// time and must not be called from a body.
class Pool final : public Parallel {
 public:
  explicit Pool(int width);  ///< at least 1; 1 has no threads and runs everything on the caller
  ~Pool() override;
  int width() const override { return static_cast<int>(threads_.size()) + 1; }
  void run(int64_t count, FunctionRef<void(int64_t, int)> body) override;

 private:
  using Body = FunctionRef<void(int64_t, int)>;
  void serve(int worker);
  bool join();
  void leave();
  void close();
  void take(int worker);

  static constexpr int kClosed = -1;
  Bell start_, empty_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> members_{kClosed};  // threads inside the current job; kClosed: there is none
  const Body* body_ = nullptr;         // of the current job, like all below
  int64_t count_ = 0;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  alignas(64) std::atomic<int64_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace hocket::device::cpu
