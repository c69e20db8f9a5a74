// One slot of a rank: the host side checks and enqueues, the bodies run on the streams and follow docs/all2all.md.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "comm/fabric.h"
#include "comm/rows.h"

namespace hocket::comm {

/// What all slots of one rank share.
struct Endpoint {
  Endpoint(const Config& c, std::unique_ptr<Fabric> f, TestHooks h)
      : config(c), layout(c), fabric(std::move(f)), hooks(std::move(h)) {}
  /// Keeps the first error; any thread.
  void report(const Status& status);
  void at(std::string_view point, int slot) const {
    if (hooks.at) hooks.at(point, slot);
  }
  bool poisons() const { return hooks.poison == TestHooks::Poison::on; }

  const Config config;
  const Layout layout;
  const std::unique_ptr<Fabric> fabric;
  const TestHooks hooks;
  uint64_t generation = 0;  ///< host thread; enqueued work has its own copy
  std::atomic<int64_t> wire_bytes{0};
  mutable std::mutex mutex;
  Status status;  ///< guarded by mutex
};

/// Memory of one ubatch. Its slots share it: a ubatch has one round at a time, and all of a round's readers are done
/// when the next one writes (rule 10).
struct Workspace {
  explicit Workspace(const Config& config);
  Plan plan;
  Inbound inbound;
  device::Buffer codes, code_scales;  ///< fp8: own rows, quantised, at the token's index
  device::Buffer rows, scales;        ///< Received
  std::vector<SourceRows> sources;
};

class RoundSlot final : public Slot {
 public:
  RoundSlot(Endpoint& endpoint, Workspace& workspace, int index)
      : end_(endpoint), work_(workspace), index_(index), dispatch_(*this), combine_(*this) {
    reset();
  }
  dbo::Transfer& dispatch(dbo::Ubatch& ub, device::TensorView x, const Routing& routing) override;
  Received received() const override;
  dbo::Transfer& combine(dbo::Ubatch& ub, device::TensorView y) override;
  void finish(dbo::Ubatch& ub, device::TensorView out) override;
  bool busy() const { return phase_ != Phase::idle; }
  int index() const { return index_; }
  void reset();  ///< REQUIRES: drained

 private:
  enum class Phase : uint8_t { idle, dispatch, packed, pushed, received, combine, answered, sent, returned };
  /// What the bodies of one round need; captured by value, because the host may be rounds ahead.
  struct Call {
    const quant::Bf16* x = nullptr;   ///< [tokens, hidden]
    const int32_t* expert = nullptr;  ///< [tokens, top_k]
    const float* weight = nullptr;    ///< [tokens, top_k]
    int64_t tokens = 0;
    uint64_t epoch = 0;
    bool first = false;  ///< of this slot and generation: no earlier round to check
    const RowOps* ops = nullptr;
    const quant::Bf16* y = nullptr;  ///< set by combine
    int64_t y_rows = 0;
  };
  class Dispatch final : public dbo::Transfer {
   public:
    explicit Dispatch(RoundSlot& slot) : slot_(slot) {}
    void prepare(device::Stream& compute) override { slot_.prepare_dispatch(compute); }
    void receive(device::Stream& compute) override { slot_.receive_dispatch(compute); }

   private:
    void push(device::Stream& comm) override { slot_.push_dispatch(comm); }
    RoundSlot& slot_;
  };
  class Combine final : public dbo::Transfer {
   public:
    explicit Combine(RoundSlot& slot) : slot_(slot) {}
    void prepare(device::Stream&) override { slot_.advance(Phase::combine, Phase::answered, "prepare of combine"); }
    void receive(device::Stream& compute) override { slot_.receive_combine(compute); }

   private:
    void push(device::Stream& comm) override { slot_.push_combine(comm); }
    RoundSlot& slot_;
  };

  // Host side: check the order of calls, enqueue.
  void advance(Phase from, Phase to, std::string_view call);
  device::Label label(const char* stage) const { return {stage, static_cast<int16_t>(ub_->index), ub_->layer}; }
  void launch(device::Stream& stream, const char* stage, device::Cost cost, device::Work::Body body) const;
  device::Event arrived(Direction direction) const;
  void prepare_dispatch(device::Stream& compute);
  void push_dispatch(device::Stream& comm);
  void receive_dispatch(device::Stream& compute);
  void push_combine(device::Stream& comm);
  void receive_combine(device::Stream& compute);
  double remote_rows() const;

  // Bodies.
  void plan(const Call& call, device::Parallel& parallel);
  void push_rows(const Call& call, const device::Label& label);
  bool peers_have_answered(uint64_t epoch) const;
  int64_t pack(int peer, const SourceRows& own);
  void unpack(const Call& call, device::Parallel& parallel);
  void gather_sources(const Call& call);
  void copy_entry(const RowOps& ops, const SourceRows& source, Inbound::Entry entry);
  void push_answers(const Call& call, const device::Label& label);
  int64_t pack_answers(int peer, const Call& call);
  void sum_at_home(const Call& call, float* out, device::Parallel& parallel);
  void sum_token(const Call& call, int64_t token, float* out) const;
  SourceRows own_rows(const Call& call) const;
  Channel channel(int peer, Direction direction) const { return {peer, index_, direction}; }

  Endpoint& end_;
  Workspace& work_;
  const int index_;
  Dispatch dispatch_;
  Combine combine_;
  Phase phase_ = Phase::idle;
  uint64_t round_ = 0;  ///< of the last dispatch
  dbo::Ubatch* ub_ = nullptr;  ///< of the round that is open
  Call call_;
};

}  // namespace hocket::comm
