// One direction of an all-to-all, as a pass sees it. The event that the wire waits for is recorded by constructing the
// Exchange, before the pass can suspend: recorded later it would contain the other ubatch's compute, results would stay
// right and the overlap would be gone. Source: vLLM #38451.
#pragma once
#include "dbo/ubatch.h"

namespace hocket::dbo {

/// Proof that a ubatch's input was recorded in time. Only Exchange can make one.
class Ready {
 public:
  const device::Event event;

 private:
  friend class Exchange;
  explicit Ready(device::Stream& compute) : event(compute.record()) {}
};

/// One direction, one ubatch, one slot. Implemented by all-to-all back ends.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void prepare(device::Stream& compute) = 0;  ///< enqueues: quantise, plan
  /// Enqueues the push behind `after` and behind nothing else on compute.
  void send(device::Stream& comm, const Ready& after) {
    comm.wait(after.event);
    push(comm);
  }
  virtual void receive(device::Stream& compute) = 0;  ///< enqueues: wait for every rank, then unpack

 private:
  virtual void push(device::Stream& comm) = 0;
};

/// Constructed: prepared and on its way. Awaited: the other ubatches run, then compute waits for arrival.
/// What is enqueued on compute between the two overlaps the wire even with one ubatch.
class Exchange : public Yield {
 public:
  Exchange(Ubatch& ub, Transfer& transfer) : Yield(ub), transfer_(transfer) {
    transfer_.prepare(ub.compute);
    transfer_.send(ub.comm, Ready(ub.compute));
  }
  void await_resume() { transfer_.receive(ub_.compute); }

 private:
  Transfer& transfer_;
};

}  // namespace hocket::dbo
