// How token rows reach the ranks that own their experts and how the results come home: the contract of every back end.
// Not here: when to overlap (dbo), how experts compute (model). Rules by number: docs/all2all.md.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dbo/exchange.h"
#include "device/tensor.h"

namespace hocket::comm {

enum class Backend : uint8_t { high_throughput, low_latency, allgather };
std::string_view name(Backend backend);
/// Hocket's names, "ht", "ll", and vLLM's: deepep_high_throughput, deepep_low_latency, allgather_reducescatter, naive.
Expected<Backend> parse_backend(std::string_view text);
enum class Wire : uint8_t { bf16, fp8_f32 };  ///< dispatched rows: bf16, or e4m3 with one f32 scale per 128 columns

/// Equal on every rank but for `rank`; compared field by field when opened.
struct Config {
  int rank = 0, ranks = 1;       ///< 0 <= rank < ranks <= 64
  int experts = 0, top_k = 0;    ///< experts % ranks == 0; 1 <= top_k <= 32
  int hidden = 0;                ///< elements, 16..16384, % 16 == 0
  int64_t max_tokens = 0;        ///< per rank and ubatch, the un-split maximum
  int max_ubatches = 2, slots_per_ubatch = 2;  ///< each 1..8
  int expert_align = 1;          ///< rows; starts of experts are multiples of it
  Backend backend = Backend::high_throughput;
  Wire wire = Wire::bf16;
  std::chrono::milliseconds timeout{10'000};       ///< any wait for a peer in a round
  std::chrono::milliseconds open_timeout{600'000};  ///< opening, reform(), and the first round of each slot
  int local_experts() const { return experts / ranks; }
  int64_t capacity() const;  ///< rows of Received::rows: all that can arrive, every expert start aligned
};
/// Fails with Code::config naming the first field that is out of range, its value and the range.
Expected<void> validate(const Config& config);

/// expert [tokens, top_k] i32, -1 = no choice; weight [tokens, top_k] f32, finite.
struct Routing {
  device::TensorView expert, weight;
};

/// Rows for the local experts, valid from receive() to combine(). Rows of local expert e are
/// offsets[e] .. offsets[e] + counts[e], ordered by (source rank, token); the rest up to offsets[e + 1] is unwritten.
struct Received {
  device::TensorView rows;     ///< [capacity, hidden] bf16; with Wire::fp8_f32 the e4m3 codes as bf16 values (exact)
  device::TensorView scales;   ///< [capacity, ceil(hidden / 128)] f32; empty view with Wire::bf16
  device::TensorView counts;   ///< [local_experts] i32
  device::TensorView offsets;  ///< [local_experts + 1] i32
};

struct Status {
  Code code = Code::ok;
  uint64_t peers = 0;  ///< bit r: rank r is a cause
  uint64_t epoch = 0;
  std::string what{};
};

/// Memory and flags of one exchange round. Calls per round, in this order: dispatch, (its Transfer), received, combine,
/// (its Transfer), finish. Any other order throws InvariantError.
class Slot {
 public:
  virtual ~Slot() = default;
  /// x [tokens >= 0, hidden] bf16. More than max_tokens, or a bad id, fails the round on every rank (docs/all2all.md).
  virtual dbo::Transfer& dispatch(dbo::Ubatch& ub, device::TensorView x, const Routing& routing) = 0;
  virtual Received received() const = 0;
  /// y [rows <= capacity, hidden] bf16 at the positions of received(); padding rows are never read, so fewer than
  /// `capacity` rows are enough if they reach offsets[local_experts]. x, routing and y must stay as they are until the
  /// work of finish() has run: rows whose owner is their own rank are read in place.
  virtual dbo::Transfer& combine(dbo::Ubatch& ub, device::TensorView y) = 0;
  /// out [tokens, hidden] f32 = sum over valid choices of weight * row, f32 fma in ascending expert id (ties: choice
  /// order), bitwise independent of ranks, cut, back end and timing. Enqueues on compute; ends the round.
  virtual void finish(dbo::Ubatch& ub, device::TensorView out) = 0;
};

class AllToAll {
 public:
  struct Traits {
    bool capturable = true, waits_on_host = false;
    int max_ubatches = 8;
  };
  virtual ~AllToAll() = default;
  virtual const Traits& traits() const = 0;
  virtual const Config& config() const = 0;
  virtual Slot& lease(dbo::Ubatch& ub) = 0;  ///< slots take turns within a ubatch and step, never across ubatches
  virtual Status status() const = 0;         ///< any thread; first error since reform(); sticky
  virtual void abort(Code code, std::string_view why) noexcept = 0;  ///< any thread; frees every waiter of the group
  /// Collective among live ranks, streams drained: a new generation, status ok again. Ranks that are threads share
  /// their memory, so all must be live: another mask is answered with Code::config.
  virtual Status reform(uint64_t live_ranks) = 0;
  virtual int64_t wire_bytes() const = 0;  ///< bytes sent to other ranks since opening; any thread
};

/// Empty in production; not compared between ranks.
struct TestHooks {
  enum class Poison : uint8_t { off, on };  ///< on: what peers write is filled with 0xFF after its last reader
  uint64_t first_round = 1;                 ///< of every slot, in every generation
  Poison poison = Poison::off;
  /// Called by the work of a round at "plan", "push", "publish", "unpack", "combine", "home_sum"; may sleep or throw.
  std::function<void(std::string_view point, int slot)> at{};
};

class Fabric;
class Hub;
/// Collective over the ranks of `hub`, each from its own thread, bounded by open_timeout. Allocates everything. Fails
/// with Code::config (names the field and both values) or Code::timeout (names the missing ranks). `hub` must outlive
/// the result, and the rank's streams must be drained before the result is destroyed.
Expected<std::unique_ptr<AllToAll>> open(const Config& config, Hub& hub, const TestHooks& hooks = {});
/// The same over a fabric that is connected already.
Expected<std::unique_ptr<AllToAll>> open(const Config& config, std::unique_ptr<Fabric> fabric,
                                         const TestHooks& hooks = {});

/// One MoE layer of one ubatch: leases a slot and forwards its calls. Lives in the coroutine frame; left unfinished
/// (a throw, or a frame destroyed half way) it aborts the group, so that no peer waits for ever.
class Round {
 public:
  Round(AllToAll& a2a, dbo::Ubatch& ub) : a2a_(a2a), ub_(ub), slot_(a2a.lease(ub)) {}
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;
  ~Round() {
    if (!finished_) a2a_.abort(Code::aborted, ub_.where());
  }
  dbo::Transfer& dispatch(device::TensorView x, const Routing& routing) { return slot_.dispatch(ub_, x, routing); }
  Received received() const { return slot_.received(); }
  dbo::Transfer& combine(device::TensorView y) { return slot_.combine(ub_, y); }
  void finish(device::TensorView out) {
    slot_.finish(ub_, out);
    finished_ = true;
  }

 private:
  AllToAll& a2a_;
  dbo::Ubatch& ub_;
  Slot& slot_;
  bool finished_ = false;
};

}  // namespace hocket::comm
