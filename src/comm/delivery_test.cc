// The protocol over a network that the test drives: a message is a copy taken when it is published, and arrives later, in
// an order that the seed chooses. What a shared memory would hide (a flag before its rows, a buffer written too early)
// shows here as wrong bits.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "comm/harness.h"
#include "device/cpu/seeded.h"

namespace hocket::comm {
namespace {

using namespace harness;  // NOLINT(google-build-using-namespace): the test's own

class Network {
 public:
  Network(const Config& config, uint64_t seed) : device(seed), layout(config), ranks(config.ranks) {
    for (int i = 0; i < ranks * ranks; ++i) wires.push_back(device.make_stream("wire"));
  }
  struct Message {
    std::vector<std::byte> bytes;
    uint64_t word = 0;
  };
  using Key = std::array<int, 4>;  // to, from, slot, direction
  device::cpu::SeededDevice device;
  Layout layout;
  int ranks;
  std::vector<std::unique_ptr<device::Stream>> wires;  // one a pair: messages of a pair keep their order
  std::map<Key, Message> inbox;
  bool aborted = false;
  Status verdict;
};

class NetworkFabric final : public Fabric {
 public:
  NetworkFabric(Network& net, int rank) : net_(net), rank_(rank) {}
  std::byte* outbox(Channel to) override {
    // One buffer for all: a message that was published must not need it any more.
    outbox_.assign(static_cast<size_t>(net_.layout.bytes(to.direction)), std::byte{0xFF});
    return outbox_.data();
  }
  void publish(Channel to, int64_t bytes, uint64_t word, const device::Label&) override {
    std::vector<std::byte> copy(outbox_.begin(), outbox_.begin() + bytes);
    outbox_.assign(outbox_.size(), std::byte{0xFF});
    auto& wire = *net_.wires[static_cast<size_t>(rank_ * net_.ranks + to.peer)];
    const Network::Key key{to.peer, rank_, to.slot, static_cast<int>(to.direction)};
    auto message = std::make_shared<Network::Message>(Network::Message{std::move(copy), word});
    wire.launch({{"wire"}, {}, [this, key, message](device::Parallel&) {
      // Beyond what was sent nothing is defined.
      const auto direction = static_cast<Direction>(key[3]);
      message->bytes.resize(static_cast<size_t>(net_.layout.bytes(direction)), std::byte{0xFF});
      net_.inbox[key] = std::move(*message);
    }});
  }
  const std::byte* inbox(Channel from) const override { return net_.inbox[key(from)].bytes.data(); }
  uint64_t word(Channel from) const override {
    const auto found = net_.inbox.find(key(from));
    const uint64_t word = found == net_.inbox.end() ? 0 : found->second.word;
    return hide_answers && from.direction == Direction::combine && from.peer != rank_ ? 0 : word;
  }
  bool wait_until(FunctionRef<bool()> done, device::Clock::time_point) override { return done(); }
  void abort(const Status& verdict) noexcept override {
    if (!net_.aborted) net_.verdict = verdict;
    net_.aborted = true;
  }
  bool aborted() const override { return net_.aborted; }
  Status verdict() const override { return net_.verdict; }
  Status reform(uint64_t, std::chrono::milliseconds) override { return {}; }
  void poison(Channel from) override {
    auto& bytes = net_.inbox[key(from)].bytes;
    std::memset(bytes.data(), 0xFF, bytes.size());
  }
  bool hide_answers = false;

 private:
  Network::Key key(Channel from) const { return {rank_, from.peer, from.slot, static_cast<int>(from.direction)}; }
  Network& net_;
  int rank_;
  std::vector<std::byte> outbox_;
};

/// All ranks on one network and one seed.
struct Wired {
  Wired(const Config& config, uint64_t seed) : net(config, seed) {
    for (int r = 0; r < config.ranks; ++r) {
      Config mine = config;
      mine.rank = r;
      auto fabric = std::make_unique<NetworkFabric>(net, r);
      fabrics.push_back(fabric.get());
      ends.push_back(*open(mine, std::move(fabric), {.poison = TestHooks::Poison::on, .at = [this, r](std::string_view point, int) {
        if (at) at(r, point);
      }}));
    }
  }
  int64_t play(Play& script) {
    for (size_t i = 0; i < 2 * ends.size(); ++i) streams.push_back(net.device.make_stream("lane"));
    for (int step = 0; step < script.steps(); ++step) {
      for (size_t r = 0; r < ends.size(); ++r) {
        script.enqueue(static_cast<int>(r), step, *ends[r], *streams[2 * r], *streams[2 * r + 1]);
      }
    }
    net.device.drain();
    for (auto& stream : streams) stream->synchronize();
    return script.mismatches();
  }
  Network net;
  std::vector<NetworkFabric*> fabrics;
  std::function<void(int rank, std::string_view point)> at;
  Ends ends;
  std::vector<std::unique_ptr<device::Stream>> streams;
};

TEST(Delivery, TR15_AnyOrderOfArrivalGivesTheSameBits) {
  for (const Backend backend : {Backend::high_throughput, Backend::low_latency, Backend::allgather}) {
    for (uint64_t seed = 0; seed < 144; ++seed) {
      SCOPED_TRACE(testing::Message() << name(backend) << ", seed " << seed);
      const int ubatches = 1 + static_cast<int>(seed % 3);
      const Config config{.ranks = 2 + static_cast<int>(seed / 3 % 3), .experts = 12, .top_k = 3, .hidden = 32,
                          .max_tokens = 5, .max_ubatches = ubatches, .slots_per_ubatch = 1 + static_cast<int>(seed / 9 % 2),
                          .backend = backend, .wire = seed / 18 % 2 == 0 ? Wire::bf16 : Wire::fp8_f32};
      Wired run(config, seed);
      Play play({.config = config, .tokens = draw_tokens(config, 2, 3, ubatches, seed), .seed = seed});
      ASSERT_EQ(run.play(play), 0);
    }
  }
}

TEST(Delivery, ARefillWithoutTheAnswerOfThePreviousRoundIsAnError) {
  const Config config{.ranks = 2, .experts = 12, .top_k = 3, .hidden = 32, .max_tokens = 5, .slots_per_ubatch = 1};
  Wired run(config, 1);
  int pushes = 0;
  run.at = [&](int rank, std::string_view point) {  // rank 1 misses an answer when it pushes for the third time
    if (rank != 1) return;
    if (point == "push") run.fabrics[1]->hide_answers = ++pushes == 3;
    if (point == "publish") run.fabrics[1]->hide_answers = false;
  };
  Play play({.config = config, .tokens = Tokens(1, {4, {{5, 0}}})});  // the guilty rank has no rows, so no bit differs
  EXPECT_EQ(run.play(play), 0);
  for (const auto& end : run.ends) {
    EXPECT_EQ(end->status().code, Code::epoch);
    EXPECT_EQ(end->status().peers, 2U);
    EXPECT_EQ(end->status().epoch, epoch_of(0, 3));
  }
}

}  // namespace
}  // namespace hocket::comm
