// A processor as the device of one rank: a compute stream with a pool of threads, and streams with
// a thread each.
#pragma once
#include <chrono>

#include "device/recorder.h"

namespace hocket::device::cpu {

struct CpuOptions {
  Isa isa = Isa::generic;  ///< what kernels may use
  int threads = 1;         ///< that compute: width of the compute stream, at least 1
  std::chrono::milliseconds wait_timeout{10'000};  ///< a stream waits at most so long for one event
  Recorder* recorder = nullptr;  ///< writes down when launches run; outlives the streams; null: no trace
  int rank = 0;                  ///< of the recorder's lanes
};

/// Streams execute on their own threads, with denormals flushed to zero. "compute" is
/// options.threads wide; every other lane, such as "comm", is one background thread. A wait that
/// ends without its event poisons the stream: Error(timeout) if it never came, Error(aborted) if it
/// failed. A stream that is destroyed drops what is queued.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(CpuOptions options);  ///< throws Error(config) if threads < 1
  std::unique_ptr<Stream> make_stream(std::string_view lane) override;
  Isa isa() const override { return options_.isa; }

 private:
  CpuOptions options_;
};

}  // namespace hocket::device::cpu
