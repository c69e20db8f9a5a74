// What overlaps what, for both kinds of exchange and two to four ubatches; and pictures of it in
// test/sim, so that a changed schedule is a readable diff.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sim/draw.h"
#include "sim/layers.h"
#include "sim/report.h"

namespace hocket::sim {
namespace {

using device::sim::Timeline;

struct Case {
  const char* name;
  dbo::Mode mode;
  int ubatches;
};
constexpr Case kCases[] = {
    {"ht_2", dbo::Mode::high_throughput, 2}, {"ht_3", dbo::Mode::high_throughput, 3},
    {"ht_4", dbo::Mode::high_throughput, 4}, {"ll_2", dbo::Mode::low_latency, 2},
    {"ll_3", dbo::Mode::low_latency, 3},     {"ll_4", dbo::Mode::low_latency, 4}};

class EveryExchange : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Modes, EveryExchange, testing::ValuesIn(kCases),
                         [](const auto& one) { return std::string(one.param.name); });

std::string span_name(int ubatch, int layer, const char* stage) {
  return device::Label{stage, static_cast<int16_t>(ubatch), static_cast<int16_t>(layer)}.str();
}

// The wire of a ubatch runs under the stage of the next one; that of the last under the next stage
// of the first.
TEST_P(EveryExchange, HidesUnderTheNextUbatch) {
  const auto& [name, mode, ubatches] = GetParam();
  const StageTimes times{.attention = 300'000,
                         .experts = 300'000,
                         .dispatch = 250'000,
                         .combine = 250'000,
                         .mode = mode};
  const Timeline t = run_stages(times, {.ranks = 2, .ubatches = ubatches, .order = {.layers = 3}});
  for (int u = 0; u < ubatches; ++u) {
    const bool last = u + 1 == ubatches;
    const int next = last ? 0 : u + 1;
    const auto overlap = [&](const char* wire, const char* stage, int layer) {
      return device::sim::overlap(t.at(span_name(u, 1, wire)), t.at(span_name(next, layer, stage)));
    };
    EXPECT_EQ(overlap("dispatch", last ? "experts" : "attention", 1), Nanos(250'000)) << u;
    EXPECT_EQ(overlap("combine", last ? "attention" : "experts", last ? 2 : 1), Nanos(250'000))
        << u;
  }
}

TEST_P(EveryExchange, ALateEventHidesNothing) {
  const auto& [name, mode, ubatches] = GetParam();
  const StageTimes times{.attention = 300'000,
                         .experts = 300'000,
                         .dispatch = 250'000,
                         .combine = 250'000,
                         .mode = mode};
  const Order late{.layers = 3, .capture = EventCapture::after_yield};
  const Timeline t = run_stages(times, {.ubatches = ubatches, .order = late});
  EXPECT_EQ(t.end(), Nanos(3 * ubatches * 1'100'000));
}

void expect_golden(const std::string& name, const std::string& got) {
  const std::string golden = HOCKET_SOURCE_DIR "/test/sim/" + name + ".txt";
  const std::string now = testing::TempDir() + name + ".txt";
  std::ofstream(now) << got;
  std::ifstream file(golden);
  std::stringstream want;
  want << file.rdbuf();
  EXPECT_EQ(got, want.str()) << "if the change is meant: cp " << now << " " << golden;
}

/// One column a nanosecond.
std::string picture(const StageTimes& times, const StageRun& run) {
  const Timeline t = run_stages(times, run);
  return draw(t, {.columns = static_cast<int>(t.end().count())});
}

// docs/dbo.md 3.4: A=9 S=4 G=7 D=5 C=9, and A=7 S=3 G=6 D=6 C=8 with unit kernels around it.
constexpr StageTimes kHighThroughput{9, 4, 7, 5, 9};
constexpr StageTimes kLowLatency{.attention = 7,
                                 .shared = 3,
                                 .experts = 6,
                                 .dispatch = 6,
                                 .combine = 8,
                                 .prepare = 1,
                                 .receive = 1,
                                 .mode = dbo::Mode::low_latency};

TEST_P(EveryExchange, LooksAsBefore) {
  const auto& [name, mode, ubatches] = GetParam();
  const bool ht = mode == dbo::Mode::high_throughput;
  expect_golden(name, picture(ht ? kHighThroughput : kLowLatency,
                              {.ubatches = ubatches, .order = {.layers = 2}}));
}

TEST(Golden, TheFaultAndTheOtherOrder) {
  Order order{.layers = 2, .capture = EventCapture::after_yield};
  expect_golden("ht_2_after_yield", picture(kHighThroughput, {.order = order}));
  order.schedule = Schedule::vllm;
  expect_golden("ht_2_vllm_after_yield", picture(kHighThroughput, {.order = order}));
  order.capture = EventCapture::before_yield;
  expect_golden("ht_2_vllm", picture(kHighThroughput, {.order = order}));
  expect_golden("ht_1",
                picture(kHighThroughput,
                        {.ubatches = 1, .order = {.layers = 2, .overlap = dbo::Overlap::off}}));
}

TEST(Golden, ThreeLayersTakeTheDocumentedTime) {
  EXPECT_EQ(run_stages(kHighThroughput, {.order = {.layers = 3}}).end(), Nanos(125));
}

// A layer of models, with the ranks that differ one below the other.
TEST(Golden, LayersOfModels) {
  const auto layer = [](const char* model, const char* hardware, int ranks, RoutingSpec routing,
                        dbo::Phase phase, int64_t tokens) {
    const StepSetup setup{.model = *load_model_spec(model),
                          .hardware = *load_hardware(hardware),
                          .ranks = ranks,
                          .routing = routing};
    const StepModel step(setup);
    const Workload workload{.input_len = 4096};
    return layer_picture(step, step.run(plain_step(setup, workload, phase, tokens, 2)));
  };
  using dbo::Phase;
  expect_golden("qwen3_30b_b200_prefill",
                layer("qwen3-30b-a3b", "b200", 4, {}, Phase::prefill, 16384));
  expect_golden("qwen3_30b_b200_prefill_zipf",
                layer("qwen3-30b-a3b", "b200", 4, {RoutingKind::zipf, 1}, Phase::prefill, 16384));
  expect_golden("deepseek_h800_prefill", layer("deepseek-v3", "h800", 8, {}, Phase::prefill, 8192));
  expect_golden("deepseek_h800_decode", layer("deepseek-v3", "h800", 8, {}, Phase::decode, 256));
}

}  // namespace
}  // namespace hocket::sim
