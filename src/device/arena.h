// Memory of one step: bump allocation from a block that is taken once. Nothing is freed during a step.
#pragma once
#include <memory>

#include "device/tensor.h"

namespace hocket::device {

/// A block of host memory, 64-byte aligned, zero pages until touched. Move only.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t bytes);
  std::byte* data() const { return memory_.get(); }
  int64_t size() const { return size_; }

 private:
  class Unmap {
   public:
    Unmap() : bytes_(0) {}
    explicit Unmap(int64_t bytes) : bytes_(bytes) {}
    void operator()(std::byte* memory) const;

   private:
    int64_t bytes_;
  };
  std::unique_ptr<std::byte, Unmap> memory_;
  int64_t size_ = 0;
};

/// Hands out 64-byte aligned tensors until reset(). Used by one thread (the rank's host thread).
class Arena {
 public:
  explicit Arena(int64_t bytes) : buffer_(bytes) {}
  /// Throws Error(capacity) naming the sizes when the arena is full. With `poison`, memory is filled with NaN bytes.
  TensorView make(DType dtype, std::initializer_list<int64_t> extents);
  TensorView like(const TensorView& other);
  void reset() { used_ = 0; }  ///< REQUIRES: no enqueued work uses the memory any more
  int64_t used() const { return used_; }
  int64_t high_water() const { return high_water_; }
  int64_t size() const { return buffer_.size(); }

 private:
  std::byte* take(int64_t bytes);
  Buffer buffer_;
  int64_t used_ = 0, high_water_ = 0;
};

}  // namespace hocket::device
