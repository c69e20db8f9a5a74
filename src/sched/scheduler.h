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

/// Order within a step: running decodes (oldest first), then running prefills, then newly admitted ones; a request that
/// reads blocks which another one fills in the same step comes after it where the layout allows. One thread.
class Scheduler {
 public:
  Scheduler(Limits limits, kv::BlockPool& pool);
  ~Scheduler();
  /// REQUIRES: 0 < prompt < max_model_len. Fails (capacity) if the request could never fit the pool alone.
  Expected<void> add(Request request);
  /// Removes it wherever it is, its blocks are released. Unknown ids are ignored. REQUIRES: no plan is open.
  void abort(int64_t id);
  bool has_work() const;
  /// Opens a step: admits, allocates, preempts the latest arrivals when blocks run out. Rows point into the requests and
  /// stay valid until commit() or rollback(). Empty when there is no work.
  const dbo::StepPlan& plan();
  /// The step succeeded: computed counts advance, filled blocks are published.
  void commit();
  /// The step failed: every request of the plan is handed back and removed; nothing of it enters the prefix cache.
  std::vector<Request> rollback();
  /// Between commit() and plan(): the sampled token of a request.
  void append(int64_t id, int32_t token);
  /// Removes a finished request and returns it.
  Request finish(int64_t id);
  const Request* find(int64_t id) const;
  Counters counters() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hocket::sched
