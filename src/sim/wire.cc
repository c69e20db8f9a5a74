#include "sim/wire.h"

namespace hocket::sim {
namespace {

bool empty(const device::Cost& cost) {
  return cost.flops <= 0 && cost.memory_bytes <= 0 && cost.wire_bytes <= 0;
}

}  // namespace

Wire::Wire(dbo::Ubatch& ub, Direction direction, WireSpec spec)
    : ub_(ub), direction_(direction), spec_(std::move(spec)) {
  spec_.exchange.key = {ub.layer, static_cast<int16_t>(ub.index), direction};
}

void Wire::prepare(device::Stream&) {
  const bool out = direction_ == Direction::dispatch;
  if (!empty(spec_.prepare))
    ub_.lane().launch(out ? "prepare_dispatch" : "prepare_combine", spec_.prepare, {});
}

void Wire::receive(device::Stream& compute) {
  compute.wait(arrived_);
  const bool out = direction_ == Direction::dispatch;
  if (!empty(spec_.receive))
    ub_.lane().launch(out ? "receive_dispatch" : "receive_combine", spec_.receive, {});
}

void Wire::send_after(device::Stream& comm, const device::Event& event) {
  comm.wait(event);
  push(comm);
}

void Wire::push(device::Stream& comm) {
  auto& stream = dynamic_cast<RecordStream&>(comm);
  const device::Label label{name(direction_), static_cast<int16_t>(ub_.index), ub_.layer};
  arrived_ = spec_.mode == dbo::Mode::high_throughput
                 ? stream.exchange(label, std::move(spec_.exchange))
                 : stream.post(label, std::move(spec_.exchange));
}

}  // namespace hocket::sim
