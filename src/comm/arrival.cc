#include "comm/arrival.h"

#include <fmt/format.h>

namespace hocket::comm {
namespace {

class Arrival final : public device::Event::State {
 public:
  Arrival(Fabric& fabric, Awaited awaited) : fabric_(fabric), awaited_(std::move(awaited)) {}

  bool done() const override { return fabric_.aborted() || missing() == 0; }
  bool failed() const override { return fabric_.aborted(); }
  bool wait_until(device::Clock::time_point deadline) const override {
    const device::Clock::time_point limit = first_wait() + awaited_.timeout;
    const auto ready = [this] { return done(); };
    if (fabric_.wait_until(ready, std::min(deadline, limit))) return true;
    if (device::Clock::now() < limit) return false;
    const uint64_t late = missing();
    if (late == 0) return true;
    const auto waited = awaited_.timeout.count();
    fabric_.abort({Code::timeout, late, awaited_.epoch,
                   fmt::format("rank {} waited {} ms in {} for {}", awaited_.rank, waited, awaited_.where, describe())});
    return true;
  }
  std::string describe() const override {
    std::string ranks;
    const uint64_t late = missing();
    for (int r = 0; r < awaited_.ranks; ++r) {
      if ((late >> r & 1) != 0) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", r);
    }
    return fmt::format("{} of round {} on slot {} from rank {}", name(awaited_.direction), round_of(awaited_.epoch),
                       awaited_.slot, ranks.empty() ? "none" : ranks);
  }
  std::string failure() const override {
    if (!fabric_.aborted()) return {};
    const Status verdict = fabric_.verdict();
    return fmt::format("{}: {}", name(verdict.code), verdict.what);
  }

 private:
  uint64_t missing() const {
    uint64_t mask = 0;
    for (int r = 0; r < awaited_.ranks; ++r) {
      if (!reached(fabric_.word({r, awaited_.slot, awaited_.direction}), awaited_.epoch)) mask |= uint64_t{1} << r;
    }
    return mask;
  }
  device::Clock::time_point first_wait() const {
    const int64_t now = device::Clock::now().time_since_epoch().count();
    int64_t first = 0;
    if (first_wait_.compare_exchange_strong(first, now)) first = now;
    return device::Clock::time_point(device::Clock::duration(first));
  }
  Fabric& fabric_;
  const Awaited awaited_;
  mutable std::atomic<int64_t> first_wait_{0};
};

}  // namespace

device::Event make_arrival(Fabric& fabric, Awaited awaited) {
  return device::Event(std::make_shared<const Arrival>(fabric, std::move(awaited)));
}

}  // namespace hocket::comm
