// What a device's queues and events promise, on every device: cpu, its seeded test executor, and later cuda and sim.
// Nothing here knows ubatches, models or networks.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/function_ref.h"
#include "base/inline_function.h"
#include "base/isa.h"

namespace hocket::device {

using Clock = std::chrono::steady_clock;

/// What one launch costs on any device: multiplies + adds; bytes read + written; bytes that leave this rank.
struct Cost {
  double flops = 0, memory_bytes = 0, wire_bytes = 0;
};

/// Names a launch in traces and messages, the same on every device: "u0/L12/experts". `stage` is a string literal.
struct Label {
  const char* stage = "";
  int16_t ubatch = 0;
  int16_t layer = -1;  ///< -1: not part of a layer, "u0/logits"
  std::string str() const;
};

/// The threads that a launch may use. Work is split over independent outputs only, so the width never changes a bit.
class Parallel {
 public:
  virtual ~Parallel() = default;
  virtual int width() const = 0;
  /// Calls body(index, worker) once for every index in [0, count), worker in [0, width()); returns when all are done.
  /// The first exception of a body is rethrown here.
  virtual void run(int64_t count, FunctionRef<void(int64_t index, int worker)> body) = 0;
};

/// One launch. The body runs after the frame that enqueued it is gone: it captures views by value.
struct Work {
  using Body = InlineFunction<void(Parallel&)>;
  Label label;
  Cost cost;
  Body body;
};

/// "Everything enqueued before record()", or a flag that a peer raises. A cheap handle; waits may outlive it.
class Event {
 public:
  struct State {
    virtual ~State() = default;
    virtual bool done() const = 0;    ///< true as soon as it fired or failed; acquires what happened before
    virtual bool failed() const = 0;  ///< meaningful once done()
    /// Blocks until done() or `deadline`; returns done(). Thread safe.
    virtual bool wait_until(Clock::time_point deadline) const = 0;
    /// What is awaited, for the message of a time-out: "dispatch of round 7 from rank 3".
    virtual std::string describe() const { return "an event"; }
    /// Why it failed; empty if it did not.
    virtual std::string failure() const { return {}; }
  };
  Event() = default;  ///< done from the start
  explicit Event(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  bool done() const { return state_ == nullptr || state_->done(); }
  bool failed() const { return state_ != nullptr && state_->failed(); }
  const State* state() const { return state_.get(); }

 private:
  std::shared_ptr<const State> state_;  // owners: the handle and the queue items that wait for it
};

class Device;

/// An in-order queue of device work, owned by its creator, never copied. Enqueueing never blocks the host. Work that
/// throws, or a wait that fails or times out, poisons the stream: later work is dropped, later events fire as failed,
/// synchronize() rethrows the first error. One thread enqueues.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;
  virtual void launch(Work work) = 0;
  [[nodiscard]] virtual Event record() = 0;      ///< this stream's tail as it is now
  virtual void wait(const Event& event) = 0;     ///< later work here starts after the event
  virtual void synchronize() = 0;                ///< blocks the host; rethrows the first failure
  /// Forgets a failure so that the stream can be used again. REQUIRES: drained (synchronize() returned or threw).
  virtual void clear_failure() = 0;
  virtual Device& device() = 0;
};

/// Makes streams; answers what kernels may use. Outlives its streams.
class Device {
 public:
  virtual ~Device() = default;
  /// `lane` names the stream in traces: "compute", "comm". The compute lane of a cpu device owns the rank's pool.
  virtual std::unique_ptr<Stream> make_stream(std::string_view lane) = 0;
  virtual Isa isa() const = 0;
};

/// Where a launch goes and what it is called there: what ops take.
struct Lane {
  Stream& stream;
  int16_t ubatch = 0;
  int16_t layer = -1;
  void launch(const char* stage, Cost cost, Work::Body body) const {
    stream.launch(Work{{stage, ubatch, layer}, cost, std::move(body)});
  }
};

}  // namespace hocket::device
