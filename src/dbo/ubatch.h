// The context of one ubatch (micro-batch) of a step, and how a pass hands the host to the next ubatch.
#pragma once
#include <coroutine>
#include <cstdint>

#include "device/arena.h"
#include "device/stream.h"

namespace hocket::dbo {

enum class Overlap : uint8_t { off, on };

/// Tokens [begin, end) of this rank's step plan; may be empty.
struct TokenRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const TokenRange&) const = default;
};

/// All mutable state of a pass hangs off this. Ubatches of a rank share its two streams, nothing else.
struct Ubatch {
  int index = 0;  ///< 0 runs first; all ranks run ubatches in this order
  TokenRange tokens{};
  device::Stream& compute;
  device::Stream& comm;
  device::Arena& arena;  ///< its own; reset after the step
  Overlap overlap = Overlap::off;
  int rounds = 0;              ///< all-to-all rounds begun in this step; chooses the slot
  int16_t layer = -1;          ///< where the pass is, for traces and messages
  const char* stage = "";
  std::coroutine_handle<> next{};  ///< where run() resumes
  device::Lane lane() const { return {compute, static_cast<int16_t>(index), layer}; }
  device::Lane comm_lane() const { return {comm, static_cast<int16_t>(index), layer}; }
  std::string where() const { return device::Label{stage, static_cast<int16_t>(index), layer}.str(); }
};

/// Base of what suspends a pass. With Overlap::off it never does: the plain path is the same code.
class Yield {
 public:
  explicit Yield(Ubatch& ub) : ub_(ub) {}
  Yield(const Yield&) = delete;
  Yield& operator=(const Yield&) = delete;
  bool await_ready() const noexcept { return ub_.overlap == Overlap::off; }
  void await_suspend(std::coroutine_handle<> handle) noexcept { ub_.next = handle; }

 protected:
  Ubatch& ub_;
};

}  // namespace hocket::dbo
