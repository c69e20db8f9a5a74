// From a trace to a cost table and through its file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "sim/cost_file.h"
#include "sim/fit_costs.h"

namespace hocket::sim {
namespace {

using telemetry::TraceSpan;
using testing::HasSubstr;

/// Nanoseconds of the stages of a layer for so many tokens.
struct Machine {
  int64_t before(int64_t t) const { return 5000 + 10 * t; }
  int64_t attention(int64_t pairs) const { return 1000 + pairs; }
  int64_t dispatch(int64_t t) const { return 2000 + 40 * t; }
  int64_t experts(int64_t t) const { return 8000 + 30 * t; }
  int64_t combine(int64_t t) const { return 3000 + 50 * t; }
  int64_t after(int64_t t) const { return 500 + 5 * t; }
  int64_t outside = 70'000;
};

struct Step {
  int64_t number, tokens, pairs, query = 0, ubatches = 1;
};

/// Writes the spans of a step as an engine does. Returns its end.
int64_t write(std::vector<TraceSpan>& out, const Machine& machine, int rank, const Step& step, int layers, int64_t begin) {
  int64_t now = begin + machine.outside / 2;
  const auto span = [&](const char* lane, int layer, const char* stage, int64_t length) {
    out.push_back({rank, lane, fmt::format("u0/L{}/{}", layer, stage), now, now + length, {}});
    now += length;
  };
  for (int layer = 0; layer < layers; ++layer) {
    const int64_t t = step.tokens;
    span("compute", layer, "qkv", machine.before(t) - 300);
    span("compute", layer, "attention", machine.attention(step.pairs));
    span("compute", layer, "router", 300);
    out.push_back({rank, "comm", fmt::format("u0/L{}/dispatch", layer), now, now + 100, {}});
    now += machine.dispatch(t);
    span("compute", layer, "unpack", 100);
    span("compute", layer, "experts", machine.experts(t) - 100);
    out.push_back({rank, "comm", fmt::format("u0/L{}/combine", layer), now, now + 100, {}});
    now += machine.combine(t);
    span("compute", layer, "home_sum", machine.after(t));
  }
  now += machine.outside - machine.outside / 2;
  out.push_back({rank, "host", fmt::format("step {}", step.number), begin, now,
                 {{"tokens", step.tokens}, {"attention_pairs", step.pairs}, {"uniform_query", step.query},
                  {"ubatches", step.ubatches}}});
  return now;
}

std::vector<TraceSpan> trace_of(const std::vector<Step>& steps) {
  std::vector<TraceSpan> out;
  for (int rank = 0; rank < 2; ++rank) {
    int64_t now = 0;
    for (const Step& step : steps) now = write(out, {}, rank, step, 3, now) + 10'000;
  }
  return out;
}

const std::vector<Step> kSteps{{0, 16, 136}, {1, 64, 2080}, {2, 256, 32'896}, {3, 4, 200, 1}, {4, 32, 3000, 1}};

TEST(FitCosts, RecoversTheCostsThatMadeTheTrace) {
  const auto steps = step_costs(trace_of(kSteps));
  ASSERT_EQ(steps.size(), 10U);
  const auto table = fit_costs(steps);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->layers, 3);
  const Machine machine;
  for (const Step& step : kSteps) {
    const dbo::PhaseCosts& costs = step.query > 0 ? table->decode : table->prefill;
    const auto t = static_cast<double>(step.tokens);
    EXPECT_NEAR(costs.before.at(t) * 1000, static_cast<double>(machine.before(step.tokens)), 1) << step.number;
    EXPECT_NEAR(costs.attention.at(static_cast<double>(step.pairs)) * 1000, static_cast<double>(machine.attention(step.pairs)), 1);
    EXPECT_NEAR(costs.dispatch.at(t) * 1000, static_cast<double>(machine.dispatch(step.tokens)), 1);
    EXPECT_NEAR(costs.experts.at(t) * 1000, static_cast<double>(machine.experts(step.tokens)), 1);
    EXPECT_NEAR(costs.combine.at(t) * 1000, static_cast<double>(machine.combine(step.tokens)), 1);
    EXPECT_NEAR(costs.after.at(t) * 1000, static_cast<double>(machine.after(step.tokens)), 1);
    EXPECT_NEAR(costs.outside.at(t) * 1000, static_cast<double>(machine.outside), 1);
  }
}

TEST(FitCosts, LeavesOutSplitStepsAndThoseWithAnIdleRank) {
  std::vector<Step> steps = kSteps;
  steps[1].ubatches = 2;
  auto spans = trace_of(steps);
  for (TraceSpan& span : spans) {
    if (span.rank == 1 && span.name == "step 2") span.args[0].second = 0;
  }
  EXPECT_EQ(step_costs(spans).size(), 6U);
  const auto table = fit_costs(step_costs(spans));
  ASSERT_FALSE(table);
  EXPECT_THAT(table.error().message, HasSubstr("whole prefill steps of 1 token count, at least 2"));
}

TEST(FitCosts, WhatFallsWithMoreTokensIsTakenForNoise) {
  auto steps = step_costs(trace_of(kSteps));
  for (StepCosts& step : steps) {
    if (step.tokens == 64) step.layer.experts = 0;
  }
  const auto table = fit_costs(steps);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->prefill.experts.at(16), table->prefill.experts.at(64));
  EXPECT_GT(table->prefill.experts.at(64), 0);
}

std::filesystem::path write_text(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::path(testing::TempDir()) / name;
  std::ofstream(path) << text;
  return path;
}

TEST(CostFile, ComesBackAsItWasWritten) {
  CostFile file{.origin = {"cpu generic, 1 thread a rank", "tiny \"quoted\"", 4}, .measured = "2026-12-07", .table = {}};
  file.table.layers = 3;
  file.table.prefill.before = dbo::Curve({{1, 2.5}, {3, 4.125}});
  file.table.decode.outside = dbo::Curve({{8, 0}});
  const auto path = write_text("costs.json", cost_json(file));
  const auto read = read_cost_file(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->origin, file.origin);
  EXPECT_EQ(read->measured, file.measured);
  EXPECT_EQ(read->table, file.table);
}

TEST(CostFile, WhatIsNoCostTableIsNamed) {
  EXPECT_THAT(read_cost_file("/nowhere/costs.json").error().message, HasSubstr("/nowhere/costs.json: cannot be read"));
  CostFile file{.origin = {"d", "m", 2}, .measured = "x", .table = {}};
  file.table.layers = 1;
  const std::string good = cost_json(file);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return read_cost_file(write_text("bad.json", text)).error().message;
  };
  EXPECT_THAT(with("\"format\": 1", "\"format\": 2"), HasSubstr("format 2, this version reads 1"));
  EXPECT_THAT(with("\"experts\": []", "\"experts\": [[2, 1], [1, 1]]"), HasSubstr("counts must rise"));
  EXPECT_THAT(with("\"experts\"", "\"exports\""), HasSubstr("experts"));
  EXPECT_THAT(with("{", "["), HasSubstr("not a cost table"));
  EXPECT_THAT(with("\"layers\": 1", "\"layers\": 0"), HasSubstr("0 layers"));
}

}  // namespace
}  // namespace hocket::sim
