// Does the wire hide behind compute? On virtual time, with the figures of docs/dbo.md, and with the
// faults that lose it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>

#include "dbo/exchange.h"
#include "dbo/predict.h"
#include "dbo/run.h"
#include "device/sim/virtual_device.h"

namespace hocket::dbo {
namespace {

using device::sim::Nanos;
using device::sim::Timeline;

// Durations of the stages of one layer of one ubatch, in ns: attention, shared experts, routed
// experts, dispatch, combine.
struct Costs {
  int64_t a, s, g, d, c;
  int64_t layer() const { return a + s + g + d + c; }
};

// Moves nothing; takes its time on comm.
class Wire : public Transfer {
 public:
  Wire(Ubatch& ub, const char* stage, int64_t ns) : ub_(ub), stage_(stage), ns_(ns) {}
  void prepare(device::Stream&) override {}
  void receive(device::Stream& compute) override { compute.wait(arrived_); }

 protected:
  Ubatch& ub_;

 private:
  void push(device::Stream& comm) override {
    ub_.comm_lane().launch(stage_, {.wire_bytes = static_cast<double>(ns_)}, {});
    arrived_ = comm.record();
  }
  const char* stage_;
  int64_t ns_;
  device::Event arrived_;
};

// The fault that E3 excludes: the arrival goes through the tail of the in-order comm stream.
class WireReceivedOnComm final : public Wire {
 public:
  using Wire::Wire;
  void receive(device::Stream& compute) override { compute.wait(ub_.comm.record()); }
};

// The fault of vLLM #38451: the event is recorded, and the transfer sent, when the ubatch is
// resumed.
class LateExchange : public Yield {
 public:
  LateExchange(Ubatch& ub, Transfer& transfer) : Yield(ub), transfer_(transfer) {}
  void await_resume() {
    Exchange late(ub_, transfer_);
    late.await_resume();
  }

 private:
  Transfer& transfer_;
};

void compute(Ubatch& ub, const char* stage, int64_t ns) {
  if (ns > 0) ub.lane().launch(stage, {.flops = static_cast<double>(ns)}, {});
}

template <class AnExchange, class AWire>
Task model(Ubatch& ub, int layers, const Costs& costs) {
  for (int l = 0; l < layers; ++l) {
    ub.layer = static_cast<int16_t>(l);
    compute(ub, "attention", costs.a);
    AWire dispatch(ub, "dispatch", costs.d);
    AnExchange out(ub, dispatch);
    co_await out;
    compute(ub, "experts", costs.g);
    AWire combine(ub, "combine", costs.c);
    AnExchange back(ub, combine);
    compute(ub, "shared", costs.s);
    co_await back;
  }
}

struct Options {
  int layers = 3, ubatches = 2;
  Overlap overlap = Overlap::on;
  Nanos launch{0};
};

template <class AnExchange = Exchange, class AWire = Wire>
Timeline simulate(const Costs& costs, Options options) {
  device::sim::VirtualDevice device({.launch = options.launch});
  const auto lane = device.make_stream("compute"), comm = device.make_stream("comm");
  device::Arena arena(0);
  std::vector<Ubatch> ubs;
  std::vector<Task> tasks;
  std::vector<Pass> passes;
  ubs.reserve(static_cast<size_t>(options.ubatches));
  for (int i = 0; i < options.ubatches; ++i) {
    ubs.push_back(Ubatch{
        .index = i, .compute = *lane, .comm = *comm, .arena = arena, .overlap = options.overlap});
    tasks.push_back(model<AnExchange, AWire>(ubs.back(), options.layers, costs));
  }
  for (size_t i = 0; i < ubs.size(); ++i) passes.push_back({&ubs[i], &tasks[i]});
  run(passes);
  return device.timeline();
}

int64_t serial(const Costs& costs, const Options& options) {
  return costs.layer() * options.layers * options.ubatches;
}

// D0 with A1, D1 with G0, C0 with G1, C1 with A0 of the next layer, all of layer 1.
std::array<Nanos, 4> hidden(const Timeline& timeline) {
  const auto both = [&](const char* wire, const char* beside) {
    return device::sim::overlap(timeline.at(wire), timeline.at(beside));
  };
  return {both("u0/L1/dispatch", "u1/L1/attention"), both("u1/L1/dispatch", "u0/L1/experts"),
          both("u0/L1/combine", "u1/L1/experts"), both("u1/L1/combine", "u0/L2/attention")};
}
constexpr std::array<Nanos, 4> kNothing{};

constexpr Costs kMeasured{300'000, 0, 300'000, 250'000, 250'000};

TEST(Timeline, EachTransferRunsBesideTheOtherUbatch) {
  for (Nanos span : hidden(simulate(kMeasured, {}))) EXPECT_EQ(span, Nanos(250'000));
}

TEST(Timeline, TwentyLayersTakeTheMeasuredTime) {
  const Options twenty{.layers = 20};
  EXPECT_EQ(serial(kMeasured, twenty), 44'000'000);
  EXPECT_EQ(simulate(kMeasured, twenty).end(), Nanos(24'250'000));
}

TEST(Timeline, NothingStartsBeforeItsInput) {
  for (Overlap overlap : {Overlap::off, Overlap::on}) {
    for (int ubatches = 1; ubatches <= 4; ++ubatches) {
      const Timeline timeline =
          simulate({9, 4, 7, 5, 9}, {.layers = 3, .ubatches = ubatches, .overlap = overlap});
      for (int u = 0; u < ubatches; ++u) {
        Nanos last{0};
        for (int l = 0; l < 3; ++l) {
          for (const char* stage : {"attention", "dispatch", "experts", "combine"}) {
            const auto& span = timeline.at(
                device::Label{stage, static_cast<int16_t>(u), static_cast<int16_t>(l)}.str());
            EXPECT_GE(span.begin, last) << span.name;
            last = span.end;
          }
        }
      }
    }
  }
}

// R7: D0 D1 ... C0 C1 ... per layer, the same on every rank.
TEST(Timeline, ExchangesAreIssuedInOneOrder) {
  for (int ubatches = 1; ubatches <= 4; ++ubatches) {
    std::vector<std::string> got, want;
    const Timeline timeline = simulate({9, 4, 7, 5, 9}, {.ubatches = ubatches});
    for (const auto& span : timeline.spans()) {
      if (span.lane == "comm") got.push_back(span.name);
    }
    for (int16_t l = 0; l < 3; ++l) {
      for (const char* stage : {"dispatch", "combine"}) {
        for (int16_t u = 0; u < ubatches; ++u) want.push_back(device::Label{stage, u, l}.str());
      }
    }
    EXPECT_EQ(got, want);
  }
}

TEST(Timeline, ThreeLayersLookAsInTheDocument) {
  const Timeline timeline = simulate({9, 4, 7, 5, 9}, {});
  EXPECT_EQ(timeline.end(), Nanos(125));
  EXPECT_EQ(serial({9, 4, 7, 5, 9}, {}), 204);
  EXPECT_EQ(timeline.at("u0/L0/shared").begin,
            Nanos(25));  // behind the experts, beside the combine
  EXPECT_EQ(timeline.at("u0/L0/combine").begin, Nanos(25));
  EXPECT_EQ(timeline.at("u1/L0/combine").begin, Nanos(36));
  EXPECT_EQ(timeline.at("u0/L1/attention").begin, Nanos(40));
}

TEST(Timeline, SpeedUpsAreThoseOfTheDocument) {
  struct Case {
    const char* name;
    Costs costs;
    double want;
  };
  const Case cases[] = {{"balanced", {300, 50, 150, 170, 330}, 1.762},
                        {"EP32-like", {900, 150, 450, 450, 850}, 1.798},
                        {"NVLink-like", {1000, 150, 600, 150, 300}, 1.256},
                        {"comm-heavy", {500, 100, 300, 500, 1000}, 1.596},
                        {"small attention", {200, 50, 900, 400, 600}, 1.507}};
  for (const Case& one : cases) {
    const Options options{.layers = 61};
    const auto took = static_cast<double>(simulate(one.costs, options).end().count());
    EXPECT_NEAR(static_cast<double>(serial(one.costs, options)) / took, one.want, 0.0005)
        << one.name;
  }
}

std::vector<Costs> random_costs(size_t count) {
  std::mt19937_64 random(38451);
  const auto some = [&] { return static_cast<int64_t>(random() % 1000) + 1; };
  std::vector<Costs> all;
  for (size_t i = 0; i < count; ++i) all.push_back({some(), some(), some(), some(), some()});
  return all;
}

TEST(Timeline, APeriodLiesBetweenTheBoundAndTheSlotFormula) {
  for (const Costs& t : random_costs(400)) {
    const int64_t period =
        (simulate(t, {.layers = 3}).end() - simulate(t, {.layers = 2}).end()).count();
    const int64_t bound = 2 * std::max(t.a + t.s + t.g, t.d + t.c);
    const int64_t slots = std::max(t.a, t.d) + std::max(t.g, t.d) + std::max(t.g + t.s, t.c) +
                          std::max(t.a + t.s, t.c);
    EXPECT_GE(period, bound);
    EXPECT_LE(period, slots);
  }
}

// What policy `auto` decides by is the order of run(), not a description of it that could drift.
TEST(Timeline, ThePredictionOfALayerIsThePeriodOfTheClock) {
  for (const Costs& random : random_costs(400)) {
    Costs t = random;
    t.s = 0;
    for (int ubatches = 1; ubatches <= 4; ++ubatches) {
      const Overlap overlap = ubatches > 1 ? Overlap::on : Overlap::off;
      const auto end = [&](int layers) {
        return simulate(t, {.layers = layers, .ubatches = ubatches, .overlap = overlap}).end();
      };
      const LayerCost one{.before = static_cast<double>(t.a), .dispatch = static_cast<double>(t.d),
                          .experts = static_cast<double>(t.g), .combine = static_cast<double>(t.c)};
      const std::vector<LayerCost> parts(static_cast<size_t>(ubatches), one);
      EXPECT_EQ(layer_us(parts), static_cast<double>((end(5) - end(4)).count())) << ubatches;
      EXPECT_EQ(step_us(parts, 3), static_cast<double>(end(3).count())) << ubatches;
    }
  }
}

TEST(Timeline, WithOneUbatchSharedExpertsStillRunBesideTheCombine) {
  const Timeline timeline = simulate({9, 4, 7, 5, 9}, {.ubatches = 1, .overlap = Overlap::off});
  EXPECT_EQ(timeline.end(), Nanos(3 * (34 - 4)));
}

TEST(Timeline, ASlowHostHidesNothing) {
  const Timeline timeline = simulate(kMeasured, {.layers = 20, .launch = Nanos(1'000'000)});
  EXPECT_GE(timeline.end(), Nanos(20 * 8 * 1'000'000));
}

// Negative control of all the above: with the event recorded late the results would be right, and
// nothing overlaps.
TEST(Fault, ST01_ALateEventMakesTheStepSerial) {
  const Options twenty{.layers = 20};
  const Timeline late = simulate<LateExchange>(kMeasured, twenty);
  EXPECT_EQ(late.end(), Nanos(44'000'000));
  EXPECT_EQ(hidden(late), kNothing);
  for (const Costs& costs : random_costs(400)) {
    for (int layers : {1, 3}) {
      const Options options{.layers = layers};
      EXPECT_EQ(simulate<LateExchange>(costs, options).end(), Nanos(serial(costs, options)));
    }
  }
}

TEST(Fault, ST01_AYieldThatNeverSuspendsMakesTheStepSerial) {
  const Options options{.layers = 20, .overlap = Overlap::off};
  const Timeline timeline = simulate(kMeasured, options);
  EXPECT_EQ(timeline.end(), Nanos(44'000'000));
  EXPECT_EQ(hidden(timeline), kNothing);
}

TEST(Fault, ST01_AReceiveOnTheCommStreamWaitsForTheOtherUbatch) {
  const Timeline timeline = simulate<Exchange, WireReceivedOnComm>(kMeasured, {.layers = 20});
  const std::array<Nanos, 4> spans = hidden(timeline);
  EXPECT_EQ(spans[1], Nanos(0)) << "experts of u0 wait for the dispatch of u1";
  EXPECT_EQ(spans[3], Nanos(0)) << "attention of u0 waits for the combine of u1";
  EXPECT_GT(timeline.end(), Nanos(30'000'000));
}

}  // namespace
}  // namespace hocket::dbo
