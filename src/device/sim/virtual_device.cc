#include "device/sim/virtual_device.h"

#include <algorithm>
#include <cmath>

namespace hocket::device::sim {
namespace {

// A point in virtual time, known as soon as it is recorded.
struct Moment final : Event::State {
  explicit Moment(Nanos when) : time(when) {}
  bool done() const override { return true; }
  bool failed() const override { return false; }
  bool wait_until(Clock::time_point) const override { return true; }
  const Nanos time;
};

}  // namespace

Nanos price(const Cost& cost, const Rates& rates) {
  const double ns =
      std::max({cost.flops / rates.flops_per_ns, cost.memory_bytes / rates.memory_bytes_per_ns,
                cost.wire_bytes / rates.wire_bytes_per_ns});
  return Nanos(std::llround(ns));
}

class VirtualDevice::VirtualStream final : public Stream {
 public:
  VirtualStream(VirtualDevice& device, std::string_view lane) : device_(device), lane_(lane) {}
  void launch(Work work) override {
    device_.host_ += device_.rates_.launch;
    const Nanos begin = std::max(tail_, device_.host_);
    tail_ = begin + price(work.cost, device_.rates_);
    device_.timeline_.add({lane_, work.label.str(), begin, tail_});
  }
  Event record() override { return Event(std::make_shared<Moment>(tail_)); }
  void wait(const Event& event) override {
    if (event.state() == nullptr) return;
    const auto* moment = dynamic_cast<const Moment*>(event.state());
    if (moment == nullptr)
      throw InvariantError(lane_ + ": a virtual stream waits for " + event.state()->describe());
    tail_ = std::max(tail_, moment->time);
  }
  void synchronize() override { device_.host_ = std::max(device_.host_, tail_); }
  void clear_failure() override {}
  Device& device() override { return device_; }

 private:
  VirtualDevice& device_;
  std::string lane_;
  Nanos tail_{0};
};

std::unique_ptr<Stream> VirtualDevice::make_stream(std::string_view lane) {
  return std::make_unique<VirtualStream>(*this, lane);
}

}  // namespace hocket::device::sim
