#include "comm/group.h"

#include <condition_variable>
#include <mutex>

#include <fmt/format.h>

#include "device/stream.h"

namespace hocket::comm {
namespace {

/// How long a rank looks before it sleeps: the others of a step are usually this close, and a sleep costs more.
constexpr auto kSpin = std::chrono::microseconds(5);

template <class Ready>
void spin(const Ready& ready) {
  for (const auto end = device::Clock::now() + kSpin; !ready() && device::Clock::now() < end;) {
  }
}

}  // namespace

/// A cycle of the group is: every rank returns from await_work once, then every rank exchanges once. A wake counts for
/// the first cycle that opens after it, and a rank plans after its cycle has opened: what a wake announces is never lost.
struct Group::State {
  explicit State(int count)
      : records(static_cast<size_t>(count)), present(static_cast<size_t>(count)), cycles(static_cast<size_t>(count)) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<dbo::StepRecord> records;  ///< by rank, of the next exchange
  std::vector<dbo::StepRecord> result;   ///< of the last one: the next is complete only when all have read this
  std::vector<char> present;             ///< by rank: its record of the next exchange is here
  size_t num_present = 0;
  std::atomic<int64_t> exchanges{0};  ///< completed
  std::vector<int64_t> cycles;        ///< by rank: how often await_work returned true
  std::atomic<int64_t> opened{0};     ///< cycles opened: equal to a rank's cycles, or one more
  std::atomic<int64_t> wakes{0}, seen{0};  ///< all wakes; those before the last opening
  std::atomic<bool> closed{false};
};

Group::Group(int ranks) : state_(std::make_unique<State>(ranks)) {}
Group::~Group() = default;
int Group::ranks() const { return static_cast<int>(state_->records.size()); }

std::vector<dbo::StepRecord> Group::exchange(int rank, const dbo::StepRecord& mine, std::chrono::milliseconds timeout) {
  State& s = *state_;
  const auto me = static_cast<size_t>(rank);
  std::unique_lock lock(s.mutex);
  if (s.closed) throw Error(Code::aborted, fmt::format("step exchange of rank {}: the group is closed", rank));
  if (s.present[me] != 0) throw InvariantError(fmt::format("step exchange: rank {} came twice", rank));
  s.records[me] = mine;
  s.present[me] = 1;
  const int64_t ticket = s.exchanges;
  if (++s.num_present == s.records.size()) {
    s.num_present = 0;
    s.present.assign(s.present.size(), 0);
    s.result = s.records;
    ++s.exchanges;
    s.changed.notify_all();
    return s.result;
  }
  const auto ready = [&] { return s.exchanges != ticket || s.closed; };
  lock.unlock();
  spin(ready);
  lock.lock();
  s.changed.wait_until(lock, device::Clock::now() + timeout, ready);
  if (s.exchanges != ticket) return s.result;
  s.present[me] = 0;
  --s.num_present;
  if (s.closed) throw Error(Code::aborted, fmt::format("step exchange of rank {}: the group was closed", rank));
  std::string missing;
  for (size_t r = 0; r < s.present.size(); ++r) {
    if (r != me && s.present[r] == 0) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
  }
  throw Error(Code::timeout, fmt::format("step {}: rank {} waited {} ms for the records of rank {}", mine.step, rank,
                                         timeout.count(), missing.empty() ? "none: they came and left" : missing));
}

bool Group::await_work(int rank) {
  State& s = *state_;
  int64_t& cycle = s.cycles[static_cast<size_t>(rank)];  // only this rank's thread
  const auto ready = [&] { return s.closed || s.opened > cycle || s.wakes > s.seen; };
  spin(ready);
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, ready);
  if (s.closed) return false;
  if (s.opened == cycle) {  // the first rank of this cycle opens it for all
    ++s.opened;
    s.seen = s.wakes.load();
    s.changed.notify_all();
  }
  ++cycle;
  return true;
}

void Group::wake() {
  const std::lock_guard lock(state_->mutex);
  ++state_->wakes;
  state_->changed.notify_all();
}

void Group::close() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  state_->changed.notify_all();
}

}  // namespace hocket::comm
