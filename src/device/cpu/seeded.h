// A device whose streams are queues of one thread, executed in an order that a seed chooses: finds
// missing waits, results that depend on the order, and deadlocks, with the same launches as the
// product.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "device/stream.h"

namespace hocket::device::cpu {

/// Makes any number of streams, of any number of ranks; all are used from one thread. Nothing runs
/// until drain() or synchronize(). Every Parallel::run executes its indices in a shuffled order, on
/// random workers. Streams fail like those of CpuDevice, but a wait never times out: an event that
/// cannot fire is a deadlock.
class SeededDevice final : public Device {
 public:
  explicit SeededDevice(uint64_t seed, Isa isa = best_isa());
  ~SeededDevice() override;
  std::unique_ptr<Stream> make_stream(std::string_view lane) override;
  Isa isa() const override { return isa_; }
  /// Runs until all queues are empty. Throws InvariantError("deadlock: ...") naming what each
  /// stream waits for; the queues are then left as they are, so that a test may raise the events
  /// and drain again.
  void drain();

 private:
  class SeededStream;
  class Shuffled;
  std::mt19937_64 random_;
  Isa isa_;
  std::unique_ptr<Shuffled> parallel_;
  std::vector<SeededStream*> streams_;
};

}  // namespace hocket::device::cpu
