// The layers of a step as coroutines of dbo, over stages that only cost time.
#pragma once
#include "dbo/run.h"
#include "sim/solve.h"
#include "sim/wire.h"

namespace hocket::sim {

/// The order in which a pass hands over and sends.
enum class Schedule : uint8_t {
  hocket,  ///< two hand-overs a layer, sent before the hand-over; docs/dbo.md 3.4
  vllm     ///< three, sent after the hand-over; vLLM #24845, deepep_ht_prepare_finalize.py
};
/// When the event is recorded that the wire waits for. after_yield is the fault of vLLM #38451.
enum class EventCapture : uint8_t { before_yield, after_yield };

/// What a layer of one rank consists of. Called with the ubatch at that layer; enqueues only.
class Stages {
 public:
  virtual ~Stages() = default;
  virtual bool is_moe(int layer) const = 0;
  virtual void attention(dbo::Ubatch& ub) = 0;  ///< up to what is dispatched
  virtual WireSpec wire(dbo::Ubatch& ub, Direction direction) = 0;
  virtual void experts(dbo::Ubatch& ub) = 0;
  virtual void shared(dbo::Ubatch& ub) = 0;  ///< beside the combine
  virtual void finish(dbo::Ubatch& ub) = 0;  ///< behind the combine
  virtual void dense(dbo::Ubatch& ub) = 0;   ///< instead of experts in a layer without
  virtual void tail(dbo::Ubatch& ub) = 0;    ///< behind the last layer
};

/// What the host pays besides its launches.
struct HostCosts {
  Nanos hand_over{0};  ///< of a ubatch to the next
  Nanos layer{0};      ///< launches of a layer and ubatch that are not modelled one by one
  enum class Counts : uint8_t { on_device, on_host } counts = Counts::on_device;  ///< of rows
};

struct Order {
  int layers = 1;
  Schedule schedule = Schedule::hocket;
  EventCapture capture = EventCapture::before_yield;
  dbo::Overlap overlap = dbo::Overlap::on;
  HostCosts host{};
};

/// Enqueues one rank's step: `ranges` are its ubatches.
void record_step(RecordDevice& device, Stages& stages, std::span<const dbo::TokenRange> ranges,
                 const Order& order);

/// Stages that take given times, the same for all ubatches and ranks, in ns. For checks against
/// measured kernels and published arithmetic.
struct StageTimes {
  double attention = 0, shared = 0, experts = 0, dispatch = 0, combine = 0;
  double prepare = 0, receive = 0;  ///< kernels of low latency, each direction
  int comm_sms = 0;
  dbo::Mode mode = dbo::Mode::high_throughput;
  double layer() const { return attention + shared + experts + dispatch + combine; }
};
struct StageRun {
  int ranks = 1, ubatches = 2;
  Order order{};
  Machine machine{};
  Nanos launch{0};
};
/// A step of such layers, as rank 0 sees it. Throws Error where it cannot run.
device::sim::Timeline run_stages(const StageTimes& times, const StageRun& run);

}  // namespace hocket::sim
