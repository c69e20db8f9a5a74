// A device without data: a launch advances a clock by its price. Answers whether transfers hide
// behind compute. Not here: ranks that wait for each other; this is one rank among equal ones.
#pragma once
#include "device/sim/timeline.h"
#include "device/stream.h"

namespace hocket::device::sim {

/// Speeds of the device, and what a launch costs its host.
struct Rates {
  double flops_per_ns = 1, memory_bytes_per_ns = 1, wire_bytes_per_ns = 1;
  Nanos launch{0};
};
/// The slowest of compute, memory and wire, rounded to a nanosecond. Source: Williams et al. 2009,
/// "Roofline".
Nanos price(const Cost& cost, const Rates& rates);

/// The host is a clock, each stream is a clock; bodies are dropped, waits take no real time. Used
/// from one thread. Takes events of VirtualDevice only, which never fail.
class VirtualDevice final : public Device {
 public:
  explicit VirtualDevice(Rates rates) : rates_(rates) {}
  std::unique_ptr<Stream> make_stream(std::string_view lane) override;
  Isa isa() const override { return Isa::generic; }
  const Timeline& timeline() const { return timeline_; }
  Nanos host() const { return host_; }
  void spend(Nanos time) { host_ += time; }  ///< the host is busy with something else

 private:
  class VirtualStream;
  Rates rates_;
  Timeline timeline_;
  Nanos host_{0};
};

}  // namespace hocket::device::sim
