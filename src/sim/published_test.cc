// Published and measured figures that need no model of a machine: spin kernels, DeepSeek's
// arithmetic, SGLang's crossover. Inputs are fixed here, before anything is compared.
#include <gtest/gtest.h>

#include <array>

#include "sim/layers.h"

namespace hocket::sim {
namespace {

using device::sim::Timeline;

constexpr StageTimes kSpin{
    .attention = 300'000, .experts = 300'000, .dispatch = 250'000, .combine = 250'000};
constexpr Order kTwenty{.layers = 20};
constexpr Order kLate{.layers = 20, .capture = EventCapture::after_yield};

double error_percent(double got, double want) { return (got / want - 1) * 100; }

// D0 with A1, D1 with G0, C0 with G1, C1 with A0 of the next layer.
std::array<Nanos, 4> hidden(const Timeline& t) {
  const auto both = [&](const char* wire, const char* beside) {
    return device::sim::overlap(t.at(wire), t.at(beside));
  };
  return {both("u0/L1/dispatch", "u1/L1/attention"), both("u1/L1/dispatch", "u0/L1/experts"),
          both("u0/L1/combine", "u1/L1/experts"), both("u1/L1/combine", "u0/L2/attention")};
}

// One H200, 20 layers of spinning kernels on disjoint SMs: 24.43 ms with overlap, 44.28 ms with the
// event recorded late, 44.29 ms without overlap.
TEST(SpinKernels, OverlapTakesTheMeasuredTime) {
  const Timeline good = run_stages(kSpin, {.order = kTwenty});
  EXPECT_EQ(good.end(), Nanos(24'250'000));
  EXPECT_NEAR(error_percent(24.25, 24.43), -0.74, 0.01);
  for (const Nanos span : hidden(good)) EXPECT_EQ(span, Nanos(250'000));
}

TEST(SpinKernels, ALateEventIsSerial) {
  const Timeline late = run_stages(kSpin, {.order = kLate});
  Order whole = kTwenty;
  whole.overlap = dbo::Overlap::off;
  EXPECT_EQ(late.end(), Nanos(44'000'000));
  EXPECT_EQ(run_stages(kSpin, {.order = whole}).end(), late.end());
  EXPECT_EQ(hidden(late), (std::array<Nanos, 4>{}));
  EXPECT_NEAR(error_percent(44.0, 44.28), -0.63, 0.01);
}

// "The only thing being overlapped is one of the ubatch combine with the other ubatch non-moe
// compute": vLLM #38451 of its own order.
TEST(SpinKernels, InTheOrderOfVllmALateEventLeavesOneOverlap) {
  Order vllm = kLate;
  vllm.schedule = Schedule::vllm;
  const Timeline late = run_stages(kSpin, {.order = vllm});
  EXPECT_EQ(late.end(), Nanos(39'250'000));
  const std::array<Nanos, 4> spans = hidden(late);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(spans[i], Nanos(0));
  EXPECT_EQ(spans[3], Nanos(250'000));
  vllm.capture = EventCapture::before_yield;
  EXPECT_EQ(run_stages(kSpin, {.order = vllm}).end(), Nanos(24'250'000));
}

// The speed-ups of docs/dbo.md 3.4, 61 layers: bound, Hocket's order and vLLM's three hand-overs.
TEST(Schedules, SpeedUpsAreThoseOfTheDocument) {
  struct Case {
    StageTimes times;
    double hocket, vllm;
  };
  const Case cases[] = {{{300, 50, 150, 170, 330}, 1.762, 1.762},
                        {{900, 150, 450, 450, 850}, 1.798, 1.798},
                        {{1000, 150, 600, 150, 300}, 1.256, 1.257},
                        {{500, 100, 300, 500, 1000}, 1.596, 1.596},
                        {{200, 50, 900, 400, 600}, 1.507, 1.534}};
  for (const Case& one : cases) {
    StageRun run{.order = {.layers = 61}};
    const double serial = one.times.layer() * 61 * 2;
    const auto took = [&] { return static_cast<double>(run_stages(one.times, run).end().count()); };
    EXPECT_NEAR(serial / took(), one.hocket, 0.0005);
    run.order.schedule = Schedule::vllm;
    EXPECT_NEAR(serial / took(), one.vllm, 0.0005);
  }
}

// arXiv 2505.09343, 2.3.2: (1 + 2 bytes) x 32 tokens x 9 experts x 7000 over 50 GB/s is 120.96 us,
// two ubatches and 61 layers 14.76 ms a token; with the real width of 7168 it is 15.11 ms.
TEST(DeepSeekArithmetic, TheLinkGivesTheirTimePerToken) {
  for (const auto& [hidden_size, want] : {std::pair{7000.0, 14.757}, {7168.0, 15.111}}) {
    Graph graph{.ranks = 2};
    class WiresOnly final : public Stages {
     public:
      explicit WiresOnly(double hidden) : row_(hidden) {}
      bool is_moe(int) const override { return true; }
      void attention(dbo::Ubatch&) override {}
      void experts(dbo::Ubatch&) override {}
      void shared(dbo::Ubatch&) override {}
      void finish(dbo::Ubatch&) override {}
      void dense(dbo::Ubatch&) override {}
      void tail(dbo::Ubatch&) override {}
      WireSpec wire(dbo::Ubatch&, Direction direction) override {
        const double bytes = (direction == Direction::dispatch ? 1 : 2) * 32 * 9 * row_;
        WireSpec spec;
        spec.exchange.bytes = {bytes, bytes};  // those for itself cross no link
        return spec;
      }

     private:
      double row_;
    } stages(hidden_size);
    const std::vector<dbo::TokenRange> ranges(2);
    for (int rank = 0; rank < 2; ++rank) {
      RecordDevice device(graph, rank, [](const auto&, const auto&) { return Price{}; });
      record_step(device, stages, ranges, {.layers = 61});
    }
    const auto solution = solve(graph, {.link = {50, 50}});
    ASSERT_TRUE(solution) << solution.error().message;
    EXPECT_NEAR(static_cast<double>(solution->length.count()) / 1e6, want, 0.0005);
  }
}

// SGLang, "Deploying DeepSeek with PD disaggregation and large-scale expert parallelism" (LMSYS,
// 2025), decode on 72 H100: two-batch overlap costs 27 % at 32 tokens a device, breaks even between
// 64 and 128, gains 25.5 % at 256. Costs of a layer: weights 375 us + 2.34 us a token, exchange
// 60 us + 3.34 us a token (DeepEP's low-latency table), 5 gaps of 2 us. The compute terms are
// fitted to the point at 256 without overlap and the one at 32: what lies between is predicted.
double sglang_gain(double tokens) {
  const auto layer = [](double n) {
    const double compute = 375'000 + 2340 * n, exchange = 60'000 + 3340 * n;
    // attention 40 %, experts 60 % of compute; dispatch 173 : combine 314 of the exchange
    return StageTimes{.attention = compute * 0.4,
                      .experts = compute * 0.6,
                      .dispatch = exchange * 173 / 487,
                      .combine = exchange * 314 / 487,
                      .mode = dbo::Mode::low_latency};
  };
  const int layers = 58;
  StageRun run{.ubatches = 1, .order = {.layers = layers, .overlap = dbo::Overlap::off}};
  const auto whole = static_cast<double>(run_stages(layer(tokens), run).end().count());
  run = {.order = {.layers = layers, .host = {}}};
  const double split = static_cast<double>(run_stages(layer(tokens / 2), run).end().count()) +
                       2.0 * 5 * 2000 * layers;
  return whole / split - 1;
}

TEST(SglangDecode, SignsAndBreakEvenArePublishedOnes) {
  EXPECT_LT(sglang_gain(32), 0);
  EXPECT_GT(sglang_gain(256), 0);
  double break_even = 32;
  while (sglang_gain(break_even) < 0) break_even += 1;
  EXPECT_GE(break_even, 64);
  EXPECT_LE(break_even, 128);
  // in points of a per cent: 0 at 32, where it was fitted, and +8 at 256, where contention is
  // missing
  EXPECT_NEAR(100 * sglang_gain(32) + 27, -0.1, 0.1);
  EXPECT_NEAR(100 * sglang_gain(64), -13.4, 0.1);
  EXPECT_EQ(break_even, 102);
  EXPECT_NEAR(100 * sglang_gain(128), 8.3, 0.1);
  EXPECT_NEAR(100 * sglang_gain(256) - 25.5, 7.7, 0.1);
}

// The same report, prefill of EP32: 27 to 35 % more at equal tokens a device. Compute 1.55 us a
// token and layer from the throughput without overlap, exchange 1.43 us (three remote nodes of 21.5
// KB at 45 GB/s), 24 of 132 SMs held; attention 60 % and dispatch a third are assumptions. What is
// missing, imbalance of slots, tiles and contention, makes it too high: judged is that the gain is
// positive and below the bound.
TEST(SglangPrefill, TheGainLiesBelowTheBound) {
  const double tokens = 8192, compute = 1550 * tokens / 2, wire = 1430 * tokens / 2;
  const StageTimes times{.attention = compute * 0.6,
                         .experts = compute * 0.4,
                         .dispatch = wire / 3,
                         .combine = wire * 2 / 3,
                         .comm_sms = 24};
  const double serial = 2 * 58 * (compute + wire);
  const auto gain_of = [&](Partition partition) {
    const StageRun run{.order = {.layers = 58},
                       .machine = {.sms = 132, .comm_sms = 24, .partition = partition}};
    return serial / static_cast<double>(run_stages(times, run).end().count()) - 1;
  };
  const double bound = (compute + wire) / std::max(compute, wire) - 1;
  EXPECT_NEAR(bound, 0.92, 0.01);
  for (const Partition partition : {Partition::dynamic, Partition::fixed}) {
    EXPECT_GT(gain_of(partition), 0.35) << "above the published 27 to 35 %: terms are missing";
    EXPECT_LT(gain_of(partition), bound);
  }
  RecordProperty("dynamic", std::to_string(gain_of(Partition::dynamic)));
  RecordProperty("static", std::to_string(gain_of(Partition::fixed)));
}

}  // namespace
}  // namespace hocket::sim
