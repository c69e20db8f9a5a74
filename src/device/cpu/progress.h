// What the streams of this folder share: their events, and how a failure turns all that follows
// into nothing.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <variant>

#include "device/cpu/bell.h"
#include "device/stream.h"

namespace hocket::device::cpu {

using Reason =
    std::shared_ptr<const std::string>;  // owners: the failed stream and every event that it fails

/// The event that Stream::record() makes. Fired once, by the thread that executes the stream.
class Signal : public Event::State {
 public:
  /// `last`: the work launched before record(), for messages.
  explicit Signal(Label last) : last_(last) {}
  void fire(Reason failure) {
    failure_ = std::move(failure);
    bell_.ring();
  }
  bool done() const override { return bell_.count() != 0; }
  bool failed() const override { return done() && failure_ != nullptr; }
  bool wait_until(Clock::time_point deadline) const override { return bell_.wait(0, deadline); }
  std::string describe() const override;
  std::string failure() const override { return failed() ? *failure_ : std::string(); }

 private:
  Bell bell_;
  Label last_;
  Reason failure_;
};

/// One entry of a stream: nothing (also: the end), work, an event to fire, an event to wait for.
using Item = std::variant<std::monostate, Work, std::shared_ptr<Signal>, Event>;

/// How far a stream has come: its last work and its first failure. Used by the thread that executes
/// the stream, and by the host when the stream is drained.
class Progress {
 public:
  explicit Progress(std::string_view lane) : lane_(lane) {}
  /// Calls the body, unless the stream has failed.
  void run(Work& work, Parallel& parallel);
  /// After an event is done: its failure becomes this stream's.
  void pass(const Event& event);
  void time_out(const Event& event, std::chrono::milliseconds waited);
  void cancel(const std::string& why);
  bool failed() const { return error_ != nullptr; }
  const Reason& reason() const { return reason_; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  void clear() {
    error_ = nullptr;
    reason_ = nullptr;
  }
  /// "comm, after u0/L3/dispatch": where the stream is, for messages.
  std::string where() const;

 private:
  void fail(std::exception_ptr error, std::string reason);
  std::string lane_;
  Label last_;
  std::exception_ptr error_;
  Reason reason_;
};

}  // namespace hocket::device::cpu
