// A transfer without data: what dbo::Exchange sends and receives on a recorded device.
#pragma once
#include "dbo/exchange.h"
#include "sim/record_device.h"

namespace hocket::sim {

/// One direction of one ubatch in the layer where its pass stands.
struct WireSpec {
  ExchangeNode exchange{};  ///< its key is filled in
  dbo::Mode mode = dbo::Mode::high_throughput;
  /// Kernels around the transfer: quantise and lay out; unpack. Both on compute. Zero: none.
  device::Cost prepare{}, receive{};
};

/// High throughput: the exchange holds the comm stream until it ends. Low latency: it is on the
/// link, comm goes on.
class Wire : public dbo::Transfer {
 public:
  Wire(dbo::Ubatch& ub, Direction direction, WireSpec spec);
  void prepare(device::Stream& compute) override;
  void receive(device::Stream& compute) override;
  /// What send() does behind a Ready, behind any event: for the orders that dbo::Exchange excludes.
  void send_after(device::Stream& comm, const device::Event& event);
  const device::Event& arrived() const { return arrived_; }

 private:
  void push(device::Stream& comm) override;
  dbo::Ubatch& ub_;
  Direction direction_;
  WireSpec spec_;
  device::Event arrived_;
};

}  // namespace hocket::sim
