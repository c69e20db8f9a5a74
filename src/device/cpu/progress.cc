#include "device/cpu/progress.h"

#include <fmt/format.h>

namespace hocket::device::cpu {

std::string Signal::describe() const {
  return *last_.stage == '\0' ? "an event recorded before any work"
                              : fmt::format("the end of {}", last_.str());
}

void Progress::run(Work& work, Parallel& parallel) {
  if (failed()) return;
  last_ = work.label;
  if (!work.body) return;
  try {
    work.body(parallel);
  } catch (const std::exception& error) {
    fail(std::current_exception(), fmt::format("{}: {}", work.label.str(), error.what()));
  } catch (...) {
    fail(std::current_exception(),
         fmt::format("{}: an exception of unknown type", work.label.str()));
  }
}

void Progress::pass(const Event& event) {
  if (failed() || !event.failed()) return;
  const std::string message = fmt::format("{}: {} failed: {}", where(), event.state()->describe(),
                                          event.state()->failure());
  fail(std::make_exception_ptr(Error(Code::aborted, message)), message);
}

void Progress::time_out(const Event& event, std::chrono::milliseconds waited) {
  const std::string message = fmt::format("{}: no sign of {} for {} ms", where(),
                                          event.state()->describe(), waited.count());
  fail(std::make_exception_ptr(Error(Code::timeout, message)), message);
}

void Progress::cancel(const std::string& why) {
  const std::string message = fmt::format("{}: {}", where(), why);
  fail(std::make_exception_ptr(Error(Code::aborted, message)), message);
}

std::string Progress::where() const {
  return *last_.stage == '\0' ? fmt::format("{}, before any work", lane_)
                              : fmt::format("{}, after {}", lane_, last_.str());
}

void Progress::fail(std::exception_ptr error, std::string reason) {
  if (failed()) return;
  error_ = std::move(error);
  reason_ = std::make_shared<const std::string>(std::move(reason));
}

}  // namespace hocket::device::cpu
