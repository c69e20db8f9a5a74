#include "comm/threads.h"

#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "comm/doorbell.h"

namespace hocket::comm {
namespace {

using device::Clock;

int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

/// Written by one source only; on a line of its own.
struct alignas(64) Flag {
  std::atomic<uint64_t> word{0};
  std::atomic<int64_t> due_ns{0};  ///< with an emulated link: when the word counts
};

/// What peers write of one rank.
class Mailbox {
 public:
  explicit Mailbox(const Config& c)
      : layout_(c), ranks_(c.ranks), slots_(c.max_ubatches * c.slots_per_ubatch),
        flags_(static_cast<size_t>(slots_ * 2 * ranks_)),
        memory_(slots_ * ranks_ * (layout_.dispatch_bytes + layout_.combine_bytes)) {}
  Flag& flag(Channel from) {
    return flags_[static_cast<size_t>((from.slot * 2 + static_cast<int>(from.direction)) * ranks_ + from.peer)];
  }
  std::byte* message(Channel from) const {
    const int64_t index = int64_t{from.slot} * ranks_ + from.peer;
    const int64_t combines = from.direction == Direction::dispatch ? 0 : int64_t{slots_} * ranks_ * layout_.dispatch_bytes;
    return memory_.data() + combines + index * layout_.bytes(from.direction);
  }
  int64_t bytes(Direction direction) const { return layout_.bytes(direction); }
  /// The next time after `now` at which a word that is here begins to count.
  Clock::time_point next_due(int64_t now) const {
    int64_t next = Clock::time_point::max().time_since_epoch().count();
    for (const Flag& flag : flags_) {
      const int64_t due = flag.due_ns.load();
      if (due > now) next = std::min(next, due);
    }
    return Clock::time_point(Clock::duration(next));
  }
  Doorbell bell;

 private:
  Layout layout_;
  int ranks_, slots_;
  std::vector<Flag> flags_;  ///< [slots][2 directions][ranks]
  device::Buffer memory_;    ///< [slots][ranks] dispatch messages, then [slots][ranks] combine messages
};

}  // namespace

/// A collective comes with one proposal per rank; the last rank to come judges for all.
struct Hub::State {
  State(int count, Link emulated, device::Recorder* trace)
      : ranks(count), link(emulated), recorder(trace), boxes(static_cast<size_t>(count)), configs(static_cast<size_t>(count)),
        masks(static_cast<size_t>(count)) {}

  /// REQUIRES: `lock` holds `mutex` and this rank's proposal is in place. judge() runs once, in the last rank.
  Expected<void> meet(std::unique_lock<std::mutex>& lock, int rank, std::chrono::milliseconds timeout,
                      FunctionRef<Expected<void>()> judge) {
    const uint64_t bit = uint64_t{1} << rank;
    if ((present & bit) != 0) return fail(Code::config, fmt::format("all-to-all: rank {} joined twice", rank));
    present |= bit;
    const uint64_t ticket = meetings;
    if (std::popcount(present) == ranks) {
      outcome = judge();
      present = 0;
      ++meetings;
      changed.notify_all();
      return outcome;
    }
    if (changed.wait_until(lock, Clock::now() + timeout, [&] { return meetings != ticket; })) return outcome;
    std::string missing;
    for (int r = 0; r < ranks; ++r) {
      if ((present >> r & 1) == 0) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", r);
    }
    present &= ~bit;  // so that a later attempt does not count this one
    return fail(Code::timeout,
                fmt::format("all-to-all: rank {} waited {} ms for ranks {}", rank, timeout.count(), missing));
  }
  void ring_all() {
    for (const auto& box : boxes) {
      if (box) box->bell.ring();
    }
  }

  const int ranks;
  const Link link;
  device::Recorder* const recorder;
  std::mutex mutex;  // guards what follows, but for `boxes` once connected and `aborted`
  std::condition_variable changed;
  std::vector<std::unique_ptr<Mailbox>> boxes;
  std::vector<Config> configs;
  std::vector<uint64_t> masks;
  uint64_t present = 0, meetings = 0;
  Expected<void> outcome{};
  Status verdict;
  std::atomic<bool> aborted{false};
};

namespace {

class ThreadsFabric final : public Fabric {
 public:
  ThreadsFabric(Hub::State& state, int rank)
      : state_(state), rank_(rank), mine_(*state.boxes[static_cast<size_t>(rank)]),
        trace_(state.recorder != nullptr && state.link.emulated() ? &state.recorder->lane(rank, "link") : nullptr) {}

  std::byte* outbox(Channel to) override { return box(to.peer).message(at_peer(to)); }
  void publish(Channel to, int64_t bytes, uint64_t word, const device::Label& label) override {
    Mailbox& peer = box(to.peer);
    Flag& flag = peer.flag(at_peer(to));
    if (state_.link.emulated() && to.peer != rank_) flag.due_ns.store(due(bytes, label));
    flag.word.store(word);
    peer.bell.ring();
  }
  const std::byte* inbox(Channel from) const override { return mine_.message(from); }
  uint64_t word(Channel from) const override {
    const Flag& flag = mine_.flag(from);
    const uint64_t word = flag.word.load();
    if (state_.link.emulated() && flag.due_ns.load() > now_ns()) return 0;  // still on the link
    return word;
  }
  bool wait_until(FunctionRef<bool()> done, Clock::time_point deadline) override {
    if (!state_.link.emulated()) return mine_.bell.wait_until(done, deadline);
    while (true) {  // a word on the link rings before it counts: sleep to the next due time as it is known
      const Clock::time_point next = std::min(deadline, mine_.next_due(now_ns()));
      const auto earlier = [&] { return done() || mine_.next_due(now_ns()) < next; };
      mine_.bell.wait_until(earlier, next);
      if (done()) return true;
      if (Clock::now() >= deadline) return false;
    }
  }
  void abort(const Status& verdict) noexcept override {
    {
      const std::lock_guard lock(state_.mutex);
      if (state_.aborted.load()) return;
      try {
        state_.verdict = verdict;
      } catch (const std::bad_alloc&) {  // the code matters more than the text
        state_.verdict.code = verdict.code;
      }
      state_.aborted.store(true);
    }
    state_.ring_all();
  }
  bool aborted() const override { return state_.aborted.load(); }
  Status verdict() const override {
    const std::lock_guard lock(state_.mutex);
    return state_.verdict;
  }
  Status reform(uint64_t live_ranks, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(state_.mutex);
    state_.masks[static_cast<size_t>(rank_)] = live_ranks;
    const Expected<void> good = state_.meet(lock, rank_, timeout, [this] { return judge_masks(); });
    if (good) return {};
    return {good.error().code, uint64_t{1} << rank_, 0, good.error().message};
  }
  void poison(Channel from) override { std::memset(mine_.message(from), 0xFF, static_cast<size_t>(mine_.bytes(from.direction))); }

 private:
  Mailbox& box(int rank) { return *state_.boxes[static_cast<size_t>(rank)]; }
  Channel at_peer(Channel to) const { return {rank_, to.slot, to.direction}; }
  int64_t due(int64_t bytes, const device::Label& label) {
    const int64_t start = std::max(now_ns(), link_free_ns_);
    const double speed = state_.link.bytes_per_second;
    link_free_ns_ = start + (speed > 0 ? static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / speed) : 0);
    if (trace_ != nullptr) {
      const auto at = [](int64_t ns) { return Clock::time_point(std::chrono::nanoseconds(ns)); };
      trace_->add(label, {.wire_bytes = static_cast<double>(bytes)}, at(start), at(link_free_ns_));
    }
    return link_free_ns_ + state_.link.latency.count();
  }
  Expected<void> judge_masks() {
    const uint64_t all = ~uint64_t{0} >> (64 - state_.ranks);
    for (size_t r = 0; r < state_.masks.size(); ++r) {
      if (state_.masks[r] == all) continue;
      return fail(Code::config, fmt::format("all-to-all: reform with live ranks {:#x} on rank {}: ranks that are "
                                            "threads share memory, all of {:#x} must be live", state_.masks[r], r, all));
    }
    state_.verdict = {};
    state_.aborted.store(false);
    return {};
  }
  Hub::State& state_;
  const int rank_;
  Mailbox& mine_;
  int64_t link_free_ns_ = 0;  ///< only the thread that publishes
  device::LaneRecorder* const trace_;  ///< the same
};

}  // namespace

Hub::Hub(int ranks, Link link, device::Recorder* recorder) : state_(std::make_unique<State>(ranks, link, recorder)) {
  if (ranks < 1 || ranks > 64) throw Error(Code::config, fmt::format("a hub of {} ranks: must be 1..64", ranks));
}
Hub::~Hub() = default;
int Hub::ranks() const { return state_->ranks; }

Expected<std::unique_ptr<Fabric>> Hub::connect(const Config& config) {
  State& state = *state_;
  Expected<void> own = validate(config);
  if (own && config.ranks != state.ranks) {
    own = fail(Code::config, fmt::format("all-to-all: ranks = {}, the hub was made for {}", config.ranks, state.ranks));
  }
  if (!own && (config.rank < 0 || config.rank >= state.ranks)) return tl::unexpected(own.error());
  const auto me = static_cast<size_t>(config.rank);
  // Own pages are reserved by their own thread. A rank whose configuration is bad still comes, so that no one waits.
  auto mailbox = own ? std::make_unique<Mailbox>(config) : nullptr;
  std::unique_lock lock(state.mutex);
  if (state.boxes[me]) return fail(Code::config, fmt::format("all-to-all: rank {} joined twice", config.rank));
  state.configs[me] = config;
  state.boxes[me] = std::move(mailbox);
  const Expected<void> met = state.meet(lock, config.rank, config.open_timeout, [&]() -> Expected<void> {
    for (const Config& other : state.configs) {
      const std::string text = difference(state.configs[0], other);
      if (!text.empty()) return fail(Code::config, text);
    }
    return own;  // equal configurations are valid or not together, but for `rank`, which is in range
  });
  if (met) return std::make_unique<ThreadsFabric>(state, config.rank);
  state.boxes[me].reset();
  return tl::unexpected(own ? met.error() : own.error());
}

}  // namespace hocket::comm
