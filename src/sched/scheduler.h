// What one rank runs next: continuous batching with chunked prefill, mixed steps, prefix caching and preemption by
// recomputation. Pure host logic: no device, no other rank, no clock.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <span>

#include "base/error.h"
#include "dbo/plan.h"
#include "kv/block_pool.h"
#include "sched/request.h"

namespace hocket::sched {

struct Limits {
  int64_t max_batched_tokens = 2048;  ///< tokens of one step
  int64_t max_seqs = 128;             ///< requests of one step
  int64_t max_model_len = 4096;
};

struct Counters {
  int64_t waiting = 0, running = 0, preemptions = 0;
  int64_t queued_tokens = 0;  ///< prompt tokens of waiting requests
};

/// Order within a step: running decodes (oldest first), then running prefills, then newly admitted ones, first come first
/// served; so a request that reads blocks which another one fills in the same step comes after it. Every step takes the
/// oldest request further. Decodes come before prompts, which advance when max_batched_tokens exceeds the number of
/// decodes, and at the latest when those end. One thread.
class Scheduler {
 public:
  /// `pool` outlives the scheduler, which is its only user. Throws Error (config) for limits that cannot work.
  Scheduler(Limits limits, kv::BlockPool& pool);
  ~Scheduler();
  /// Queues a request; sets its arrival, and its prompt_tokens to all of its tokens if that is 0. Fails (bad_input)
  /// unless 0 < prompt < max_model_len, and (capacity) if it could not run to its end with the whole pool to itself:
  /// prompt + max_tokens, capped to max_model_len, less the last token, whose K/V nobody reads. A plan may be open.
  Expected<void> add(Request request);
  /// Removes it wherever it is, its blocks are released. Unknown ids are ignored. REQUIRES: no plan is open.
  void abort(int64_t id);
  bool has_work() const;
  /// Opens a step: allocates, preempts the latest arrivals when blocks run out, admits. A request is admitted when
  /// there are blocks for all tokens it has. Rows point into the requests and stay valid until commit() or rollback().
  /// Empty only when there is no work; nothing is open then, and commit() and rollback() do nothing.
  /// Throws InvariantError if a running request has nothing to compute: it was neither given a token nor finished.
  const dbo::StepPlan& plan();
  /// The step succeeded: computed counts advance, filled blocks are published.
  void commit();
  /// The step failed: every request of the plan is handed back and removed; nothing of it enters the prefix cache.
  std::vector<Request> rollback();
  /// Between commit() and plan(): the sampled token of a request. REQUIRES: all its tokens are computed.
  void append(int64_t id, int32_t token);
  /// Removes a finished request and returns it. REQUIRES: it exists and no plan is open.
  Request finish(int64_t id);
  const Request* find(int64_t id) const;
  Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hocket::sched
