// How messages get from one rank to another: the seam between the protocol and what moves bytes. One message per
// (source, destination, slot, direction, round). On `threads` the outbox is the peer's memory itself; a network fabric
// gives memory of its own and sends it when published.
#pragma once
#include <cstddef>

#include "base/function_ref.h"
#include "comm/protocol.h"
#include "device/stream.h"

namespace hocket::comm {

/// One rank's end. `publish` and `outbox` are called by one thread at a time; the rest from any thread.
class Fabric {
 public:
  virtual ~Fabric() = default;
  /// Where the next message on `to` is written: Layout::bytes(direction) long, 64-byte aligned.
  virtual std::byte* outbox(Channel to) = 0;
  /// The first `bytes` of outbox(to) become visible at the peer, then `word` (release, rule 7). Never waits for a peer.
  /// `label` names the message in traces.
  virtual void publish(Channel to, int64_t bytes, uint64_t word, const device::Label& label) = 0;
  /// The message that word(from) announced.
  virtual const std::byte* inbox(Channel from) const = 0;
  /// The last word that arrived on `from`, 0 if none (acquire).
  virtual uint64_t word(Channel from) const = 0;
  /// Blocks until done() or `deadline`; returns done(). done() is asked again whenever a word arrives or abort() is called.
  virtual bool wait_until(FunctionRef<bool()> done, device::Clock::time_point deadline) = 0;
  /// Ends every wait of the group. The first verdict of a generation stays.
  virtual void abort(const Status& verdict) noexcept = 0;
  virtual bool aborted() const = 0;
  virtual Status verdict() const = 0;  ///< ok unless aborted
  /// Collective, streams drained: forgets the verdict. Not ok: masks differ, or ranks did not come in time.
  virtual Status reform(uint64_t live_ranks, std::chrono::milliseconds timeout) = 0;
  virtual void poison(Channel from) = 0;  ///< tests: fills inbox(from) with 0xFF
};

}  // namespace hocket::comm
