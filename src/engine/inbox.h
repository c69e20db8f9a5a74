// What server threads leave for a rank's thread: new requests and aborts, in order.
#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace hocket::engine {

struct Submission {
  int64_t id = 0;
  std::vector<int32_t> prompt;
  sched::SamplingParams sampling;
  std::shared_ptr<Sink> sink;  // owners: the caller and the engine
};

/// Any thread puts, the rank's thread takes. Never blocks beyond its lock.
class Inbox {
 public:
  struct Content {
    std::vector<Submission> submissions;
    std::vector<int64_t> aborts;
  };
  /// False if the rank has ended: nobody would answer.
  [[nodiscard]] bool put(Submission submission) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    content_.submissions.push_back(std::move(submission));
    return true;
  }
  void put_abort(int64_t id) {
    const std::lock_guard lock(mutex_);
    content_.aborts.push_back(id);
  }
  Content take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(content_, {});
  }
  /// The last take(): later submissions are refused.
  Content close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    return std::exchange(content_, {});
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return content_.submissions.empty() && content_.aborts.empty();
  }

 private:
  mutable std::mutex mutex_;
  Content content_;
  bool closed_ = false;
};

}  // namespace hocket::engine
