#include "dbo/run.h"

namespace hocket::dbo {

void run(std::span<const Pass> passes) {
  for (const Pass& pass : passes) pass.ubatch->next = pass.task->handle();
  for (bool pending = true; pending;) {
    pending = false;
    for (const Pass& pass : passes) {
      if (pass.task->done()) continue;
      pass.ubatch->next.resume();
      if (pass.task->done()) {
        pass.task->rethrow_if_failed();
      } else {
        pending = true;
      }
    }
  }
}

}  // namespace hocket::dbo
