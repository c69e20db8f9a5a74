// The event "the messages of all ranks are here", as a stream waits for it.
#pragma once
#include <atomic>
#include <memory>

#include "comm/fabric.h"

namespace hocket::comm {

struct Awaited {
  int slot = 0;
  Direction direction = Direction::dispatch;
  uint64_t epoch = 0;
  int rank = 0, ranks = 1;
  std::chrono::milliseconds timeout{0};  ///< from the first wait; on expiry the group is aborted
  std::string where{};
};
/// Fires when each rank's word covers the epoch; fails as soon as the group is aborted. `fabric` must outlive it.
device::Event make_arrival(Fabric& fabric, Awaited awaited);

}  // namespace hocket::comm
