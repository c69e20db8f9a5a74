// The host side of a group of ranks: who takes part, and the one exchange of step records that precedes each step.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "dbo/agree.h"

namespace hocket::comm {

/// Ranks as threads of one process. Each rank calls from its own thread; wake() and close() from any.
class Group {
 public:
  explicit Group(int ranks);
  ~Group();
  int ranks() const;
  /// Collective: gives every rank all records, by rank. Throws Error(timeout) naming the ranks that did not come,
  /// Error(aborted) after close().
  std::vector<dbo::StepRecord> exchange(int rank, const dbo::StepRecord& mine, std::chrono::milliseconds timeout);
  /// Sleeps until some rank has work (wake() was called since the last return), or close(): then false. An idle rank
  /// waits here and wakes with the others, so that no rank starts a step that the others do not run.
  bool await_work(int rank);
  void wake();   ///< a request arrived somewhere
  void close();  ///< shut down: every waiter returns

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hocket::comm
