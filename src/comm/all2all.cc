#include "comm/all2all.h"

#include <fmt/format.h>

#include "comm/round.h"
#include "comm/threads.h"

namespace hocket::comm {
namespace {

class Transport final : public AllToAll {
 public:
  Transport(const Config& config, std::unique_ptr<Fabric> fabric, const TestHooks& hooks)
      : end_(config, std::move(fabric), hooks), traits_{.max_ubatches = config.max_ubatches} {
    for (int u = 0; u < config.max_ubatches; ++u) {
      workspaces_.push_back(std::make_unique<Workspace>(config));
      for (int s = 0; s < config.slots_per_ubatch; ++s) {
        slots_.push_back(std::make_unique<RoundSlot>(end_, *workspaces_.back(), static_cast<int>(slots_.size())));
      }
    }
  }
  const Traits& traits() const override { return traits_; }
  const Config& config() const override { return end_.config; }

  Slot& lease(dbo::Ubatch& ub) override {
    const int per = end_.config.slots_per_ubatch;
    if (ub.index < 0 || ub.index >= end_.config.max_ubatches) {
      throw InvariantError(fmt::format("all-to-all: ubatch {} where max_ubatches = {}", ub.index, end_.config.max_ubatches));
    }
    for (int s = 0; s < per; ++s) {
      const RoundSlot& slot = *slots_[static_cast<size_t>(ub.index * per + s)];
      if (slot.busy()) {
        throw InvariantError(fmt::format("all-to-all: ubatch {} begins a round in {} while its round on slot {} is open",
                                         ub.index, ub.where(), slot.index()));
      }
    }
    // Turns count within the step, so that ranks with different histories name the same slots (rule 10).
    return *slots_[static_cast<size_t>(ub.index * per + ub.rounds++ % per)];
  }
  Status status() const override {
    {
      const std::lock_guard lock(end_.mutex);
      if (end_.status.code != Code::ok) return end_.status;
    }
    return end_.fabric->verdict();
  }
  void abort(Code code, std::string_view why) noexcept override {
    try {
      end_.fabric->abort({code, uint64_t{1} << end_.config.rank, 0, fmt::format("rank {}: {}", end_.config.rank, why)});
    } catch (const std::exception&) {  // no memory for the text
      end_.fabric->abort({code, uint64_t{1} << end_.config.rank, 0, {}});
    }
  }
  Status reform(uint64_t live_ranks) override {
    Status outcome = end_.fabric->reform(live_ranks, end_.config.open_timeout);
    if (outcome.code != Code::ok) return outcome;
    ++end_.generation;
    for (const auto& slot : slots_) slot->reset();
    const std::lock_guard lock(end_.mutex);
    end_.status = {};
    return {};
  }
  int64_t wire_bytes() const override { return end_.wire_bytes.load(); }

 private:
  Endpoint end_;
  Traits traits_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  ///< one a ubatch
  std::vector<std::unique_ptr<RoundSlot>> slots_;       ///< [max_ubatches][slots_per_ubatch]
};

}  // namespace

Expected<std::unique_ptr<AllToAll>> open(const Config& config, std::unique_ptr<Fabric> fabric, const TestHooks& hooks) {
  const Expected<void> good = validate(config);
  if (!good) return tl::unexpected(good.error());
  return std::make_unique<Transport>(config, std::move(fabric), hooks);
}

Expected<std::unique_ptr<AllToAll>> open(const Config& config, Hub& hub, const TestHooks& hooks) {
  Expected<std::unique_ptr<Fabric>> fabric = hub.connect(config);
  if (!fabric) return tl::unexpected(fabric.error());
  return open(config, std::move(*fabric), hooks);
}

}  // namespace hocket::comm
