// The scheduler of passes: strict round robin on one thread, so every rank issues its exchanges in the same order.
#pragma once
#include <span>

#include "dbo/task.h"
#include "dbo/ubatch.h"

namespace hocket::dbo {

struct Pass {
  Ubatch* ubatch;
  Task* task;
};

/// Resumes the passes in turn, in the order given, until all are done. Throws the first failure; the frames of the
/// others are then freed by their Tasks. Only enqueues: it never waits for the device.
void run(std::span<const Pass> passes);

}  // namespace hocket::dbo
