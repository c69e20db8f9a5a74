// The fabric for ranks that are threads of one process: a message is written straight into its receiver's memory.
#pragma once
#include <memory>

#include "comm/fabric.h"
#include "device/recorder.h"

namespace hocket::comm {

/// An emulated link: a message of n bytes leaves a rank when the one before it has left, takes n / bandwidth, and its
/// flag counts `latency` later. No processor time is spent on waiting. Zero bandwidth: no limit; with zero latency too,
/// memory as it is.
struct Link {
  double bytes_per_second = 0;
  std::chrono::nanoseconds latency{0};
  bool emulated() const { return bytes_per_second > 0 || latency.count() > 0; }
};

/// What the ranks of one group share; made once, outlives their AllToAlls. One AllToAll per rank and hub.
class Hub {
 public:
  /// `recorder`, if any, gets a lane "link" for each rank: when its messages held an emulated link, without the latency.
  explicit Hub(int ranks, Link link = {}, device::Recorder* recorder = nullptr);
  ~Hub();
  int ranks() const;
  /// Collective, each rank from its own thread: the rank's end, once all have come with equal configurations.
  Expected<std::unique_ptr<Fabric>> connect(const Config& config);
  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace hocket::comm
