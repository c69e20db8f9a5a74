// vLLM #38451 and what else can be said about whole benchmarks. Inputs are those of the presets,
// fixed before anything was compared; one number is calibrated, in the open, on the figure
// "before".
#include "sim/workload.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "sim/report.h"

namespace hocket::sim {
namespace {

StepSetup setup_of(const char* model, const char* hardware, int ranks) {
  return {.model = *load_model_spec(model), .hardware = *load_hardware(hardware), .ranks = ranks};
}

// Qwen3-30B-A3B-FP8, 4 x B200, DP4 EP4, DeepEP high throughput, 640 prompts of 8192 tokens.
const Workload kSeed{.input_len = 8192, .output_len = 1, .prompts = 640, .concurrency = 64};
constexpr double kBefore = 98'525, kAfter = 130'018;  // tokens a second, as published

double throughput(const StepSetup& setup, const Workload& workload = kSeed) {
  const auto result = run_workload(StepModel(setup), workload);
  if (!result) throw Error(result.error().code, result.error().message);
  return result->tokens_per_second(workload);
}

StepSetup vllm(EventCapture capture, double slowdown) {
  StepSetup setup = setup_of("qwen3-30b-a3b", "b200", 4);
  setup.schedule = Schedule::vllm;
  setup.capture = capture;
  setup.hardware.slowdown = slowdown;
  return setup;
}

/// The slowdown with which the run before the fix takes as long as published.
double calibrate(const StepSetup& base) {
  double low = 1, high = 20;
  for (int i = 0; i < 40; ++i) {
    StepSetup setup = base;
    setup.hardware.slowdown = (low + high) / 2;
    (throughput(setup) > kBefore ? low : high) = setup.hardware.slowdown;
  }
  return low;
}

TEST(Vllm38451, TheFixIsPredictedFromTheFigureBefore) {
  const double slowdown = calibrate(vllm(EventCapture::after_yield, 1));
  EXPECT_NEAR(load_hardware("b200")->slowdown, slowdown, 0.001) << "the preset holds the fit";
  EXPECT_NEAR(throughput(vllm(EventCapture::after_yield, slowdown)), kBefore, 1);
  const double after = throughput(vllm(EventCapture::before_yield, slowdown));
  EXPECT_NEAR(after, 124'908, 50);
  EXPECT_NEAR(100 * (after / kAfter - 1), -3.9, 0.1) << "the error, judged against 10 %";
}

// How far the prediction hangs on inputs that nobody published for that machine: the exchange rate
// and the efficiencies. Each row is calibrated anew. Rates in GB/s as DeepEP counts them, a rank's
// own rows included: #420 with 24 and 16 SMs, #394, and DeepEP V2.
TEST(Vllm38451, ThePredictionWithOtherInputs) {
  struct Case {
    double dispatch, combine, gemm, attention, want_error;
  };
  const Case cases[] = {{351, 426, 0.55, 0.50, -3.9}, {249, 310, 0.55, 0.50, 4.0},
                        {169, 135, 0.55, 0.50, 5.3},  {643, 675, 0.55, 0.50, -12.3},
                        {351, 426, 0.55, 0.25, -9.7}, {351, 426, 0.27, 0.50, -9.4}};
  for (const Case& one : cases) {
    StepSetup setup = vllm(EventCapture::after_yield, 1);
    setup.hardware.link_gb_s = one.dispatch * 0.75;
    setup.hardware.link_combine_gb_s = one.combine * 0.75;
    setup.hardware.gemm_efficiency = one.gemm;
    setup.hardware.attention_efficiency = one.attention;
    setup.hardware.slowdown = calibrate(setup);
    setup.capture = EventCapture::before_yield;
    EXPECT_NEAR(100 * (throughput(setup) / kAfter - 1), one.want_error, 0.3)
        << one.dispatch << " " << one.gemm << " " << one.attention;
  }
}

/// Layer 20 of rank 0: how long D0, D1, C0, C1 run beside the launches of the stage that hides
/// them.
std::array<Nanos, 4> hidden(const StepSetup& setup) {
  const StepShape shape = plain_step(setup, kSeed, dbo::Phase::prefill, 16384, 2);
  const RecordedStep step = StepModel(setup).run(shape);
  const auto t = timeline(step.graph, step.solution, 0);
  const auto beside = [&](const char* wire, std::string_view ubatch_layer,
                          std::initializer_list<std::string_view> stages) {
    Nanos sum{0};
    for (const std::string_view stage : stages)
      sum += device::sim::overlap(t.at(wire), t.at(std::string(ubatch_layer) + std::string(stage)));
    return sum;
  };
  return {beside("u0/L20/dispatch", "u1/L20/", {"qkv", "attention", "o_proj"}),
          beside("u1/L20/dispatch", "u0/L20/", {"gate_up", "activation", "down"}),
          beside("u0/L20/combine", "u1/L20/", {"gate_up", "activation", "down"}),
          beside("u1/L20/combine", "u0/L21/", {"qkv", "attention", "o_proj"})};
}

TEST(Vllm38451, WhatOverlapsBeforeAndAfter) {
  const auto before = hidden(vllm(EventCapture::after_yield, 4.492));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(before[i], Nanos(0));
  EXPECT_GT(before[3], Nanos(0)) << "the one overlap that the report mentions";
  for (const Nanos span : hidden(vllm(EventCapture::before_yield, 4.492)))
    EXPECT_GT(span, Nanos(0));
}

// Hocket hands over twice, so with the same fault nothing at all is left.
TEST(EventCapture, AfterTheYieldNothingOverlaps) {
  StepSetup setup = setup_of("qwen3-30b-a3b", "b200", 4);
  setup.capture = EventCapture::after_yield;
  EXPECT_EQ(hidden(setup), (std::array<Nanos, 4>{}));
  const StepShape shape = plain_step(setup, kSeed, dbo::Phase::prefill, 16384, 2);
  const StepFigures late = figures(StepModel(setup).run(shape));
  EXPECT_NEAR(*late.efficiency, 0, 0.01);
  EXPECT_NEAR(late.exposed_ms, late.comm_ms, 1e-6);
  setup.capture = EventCapture::before_yield;
  for (const Nanos span : hidden(setup)) EXPECT_GT(span, Nanos(0));
  EXPECT_GT(*figures(StepModel(setup).run(shape)).efficiency, 0.9);
}

TEST(Workload, RunsTheSchedulerAsABenchmarkDoes) {
  const auto result = run_workload(StepModel(setup_of("qwen3-30b-a3b", "b200", 4)), kSeed);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->steps, 80);  // two prompts a rank and step
  EXPECT_EQ(result->split_steps, 80);
  EXPECT_EQ(result->kinds.size(), 1U);
  EXPECT_EQ(result->reasons.at("threshold"), 80);
  const double step = result->seconds * 1000 / 80;
  EXPECT_NEAR(result->requests.front().first_token_ms, step, 0.001);
  EXPECT_NEAR(result->requests.back().first_token_ms, 8 * step, 0.001) << "64 in flight, 8 a step";
}

TEST(Workload, TwoRunsGiveTheSameBytes) {
  const Workload workload{.input_len = 700, .output_len = 20, .prompts = 50, .concurrency = 13};
  const auto json = [&] {
    StepSetup setup = setup_of("qwen3-30b-a3b", "h200-sxm", 4);
    setup.routing = {RoutingKind::zipf, 1};
    const StepModel model(setup);
    const auto result = run_workload(model, workload);
    return json_report(model, workload, *result, figures(model.run(result->steady())),
                       advise(model, workload, result->steady()));
  };
  EXPECT_EQ(json(), json());
}

TEST(Workload, SaysWhatDoesNotFit) {
  const auto result = run_workload(StepModel(setup_of("deepseek-v3", "h100-sxm", 8)), kSeed);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("needs 513 KV blocks, but 80 GB of h100-sxm hold 0"),
            std::string::npos)
      << result.error().message;
}

TEST(Ranks, AnIdleRankNeitherStopsOverlapNorHangs) {
  const StepSetup setup = setup_of("qwen3-30b-a3b", "h200-sxm", 4);
  StepShape shape = plain_step(setup, kSeed, dbo::Phase::prefill, 8192, 2);
  shape.ranks[3].assign(2, Share{});
  EXPECT_GT(*figures(StepModel(setup).run(shape)).efficiency, 0.5);
}

// What imbalance costs: experts of the busiest rank, and the flows into it.
TEST(Ranks, SkewedRoutingCostsTime) {
  double last = 1e9;
  for (const RoutingSpec& routing :
       {RoutingSpec{}, RoutingSpec{RoutingKind::zipf, 0.5}, RoutingSpec{RoutingKind::zipf, 1},
        RoutingSpec{RoutingKind::one_expert, 0}}) {
    StepSetup setup = setup_of("qwen3-30b-a3b", "b200", 4);
    setup.routing = routing;
    const double now = throughput(setup);
    EXPECT_LT(now, last) << name(routing);
    last = now;
  }
}

TEST(Ranks, OneExpertSendsEverythingToOneRank) {
  StepSetup setup = setup_of("qwen3-30b-a3b", "h200-sxm", 4);
  setup.routing = {RoutingKind::one_expert, 0};
  const StepModel model(setup);
  EXPECT_DOUBLE_EQ(model.routing().choices[0], 8);
  EXPECT_DOUBLE_EQ(model.routing().distinct(), 1);
  EXPECT_DOUBLE_EQ(model.routing().imbalance(), 4);
  const RecordedStep step = model.run(plain_step(setup, kSeed, dbo::Phase::prefill, 8192, 2));
  const auto busy = timeline(step.graph, step.solution, 0).at("u0/L20/gate_up").length();
  EXPECT_GT(busy, Nanos(0));
  EXPECT_THROW(timeline(step.graph, step.solution, 1).at("u0/L20/activation"), InvariantError);
}

TEST(LowLatency, DecodesHoldNoSmsAndAreOnTheLink) {
  const StepSetup setup = setup_of("qwen3-235b-a22b", "h200-sxm", 8);
  const Workload workload{.input_len = 1024, .output_len = 2};
  const RecordedStep step =
      StepModel(setup).run(plain_step(setup, workload, dbo::Phase::decode, 256, 2));
  const auto t = timeline(step.graph, step.solution, 0);
  EXPECT_EQ(t.at("u0/L3/dispatch").lane, "link");
  EXPECT_EQ(t.busy("comm"), Nanos(0));
  EXPECT_GT(*figures(step).efficiency, 0.5);
}

}  // namespace
}  // namespace hocket::sim
