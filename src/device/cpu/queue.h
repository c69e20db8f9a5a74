// The queue between the host, which enqueues, and the one thread that executes a stream.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "device/cpu/bell.h"
#include "device/cpu/progress.h"

namespace hocket::device::cpu {

/// Unbounded, first in, first out; one thread pushes, one takes. Never blocks the producer. Memory
/// comes in segments that are used again: nothing is allocated once the deepest backlog has been
/// seen.
class Queue {
 public:
  Queue() { head_ = tail_ = segment(); }

  template <class T>
  void push(T&& value) {
    if (used_ == kItems) {
      tail_->next = segment();
      tail_ = tail_->next;
      used_ = 0;
    }
    tail_->items[used_++] = std::forward<T>(value);
    bell_.ring();
  }
  /// Waits for an item. The oldest one stays in place until pop().
  Item& front() {
    while (bell_.count() == taken_) bell_.wait(taken_, Bell::idle_deadline());
    if (position_ == kItems) {
      Segment* empty = std::exchange(head_, head_->next);
      position_ = 0;
      empty->next = spare_.load(std::memory_order_relaxed);
      while (!spare_.compare_exchange_weak(empty->next, empty, std::memory_order_release)) continue;
    }
    return head_->items[position_];
  }
  void pop() {
    head_->items[position_++] = std::monostate{};
    taken_ = (taken_ + 1) & Bell::kMask;
  }

 private:
  static constexpr size_t kItems = 64;
  struct Segment {
    std::array<Item, kItems> items;
    Segment* next = nullptr;
  };
  Segment* segment() {
    if (free_ == nullptr) free_ = spare_.exchange(nullptr, std::memory_order_acquire);
    if (free_ == nullptr) return owned_.emplace_back(std::make_unique<Segment>()).get();
    Segment* taken = std::exchange(free_, free_->next);
    taken->next = nullptr;
    return taken;
  }

  // the producer's
  std::vector<std::unique_ptr<Segment>> owned_;
  Segment* free_ = nullptr;
  Segment* tail_ = nullptr;
  size_t used_ = 0;
  // both sides'
  alignas(64) Bell bell_;  // counts pushes
  std::atomic<Segment*> spare_{nullptr};
  // the consumer's
  alignas(64) Segment* head_ = nullptr;
  size_t position_ = 0;
  uint32_t taken_ = 0;
};

}  // namespace hocket::device::cpu
