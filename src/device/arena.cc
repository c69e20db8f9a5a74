#include "device/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace hocket::device {

Buffer::Buffer(int64_t bytes) : size_(bytes) {
  if (bytes <= 0) return;
  void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error(Code::capacity, fmt::format("cannot reserve {} bytes of memory", bytes));
  memory_ = {static_cast<std::byte*>(memory), Unmap(bytes)};
}

void Buffer::Unmap::operator()(std::byte* memory) const { munmap(memory, static_cast<size_t>(bytes_)); }

std::byte* Arena::take(int64_t bytes) {
  const int64_t rounded = (bytes + 63) / 64 * 64;
  if (used_ + rounded > buffer_.size()) {
    throw Error(Code::capacity, fmt::format("step arena is full: {} bytes asked, {} of {} used", bytes, used_, buffer_.size()));
  }
  std::byte* memory = buffer_.data() + used_;
  used_ += rounded;
  high_water_ = std::max(high_water_, used_);
#ifndef NDEBUG
  if (rounded > 0) std::memset(memory, 0xFF, static_cast<size_t>(rounded));  // NaN in every float format
#endif
  return memory;
}

TensorView Arena::make(DType dtype, std::initializer_list<int64_t> extents) {
  TensorView view(nullptr, dtype, extents);
  view.data = take(view.bytes());
  return view;
}

TensorView Arena::like(const TensorView& other) {
  TensorView view = other;
  view.data = take(other.bytes());
  return view;
}

}  // namespace hocket::device
