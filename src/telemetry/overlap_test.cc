#include "telemetry/overlap.h"

#include <algorithm>

#include "base/rng.h"

#include <gtest/gtest.h>

namespace hocket::telemetry {
namespace {

TraceSpan span(const char* lane, const char* name, int64_t begin, int64_t end) { return {0, lane, name, begin, end, {}}; }

TEST(Overlap, OneStepByHand) {
  const std::vector<TraceSpan> spans{
      span("host", "step 4", 0, 100),
      span("compute", "u0/L0/attention", 10, 30), span("compute", "u1/L0/attention", 30, 50),
      span("compute", "u0/L0/experts", 60, 90),
      span("comm", "u0/L0/dispatch", 30, 60), span("link", "u1/L1/dispatch", 55, 75),
      span("compute", "outside", 200, 300),
  };
  const OverlapReport report = analyse_overlap(spans, 10);
  ASSERT_EQ(report.steps.size(), 1U);
  const OverlapTimes& times = report.total;
  EXPECT_EQ(times.length_ns, 100);
  EXPECT_EQ(times.compute_ns, 70);
  EXPECT_EQ(times.comm_ns, 45);
  EXPECT_EQ(times.exposed_ns, 10);
  EXPECT_DOUBLE_EQ(*times.efficiency(), 15.0 / 45);
  EXPECT_EQ(report.layers.at(0).comm_ns, 30);
  EXPECT_EQ(report.layers.at(0).exposed_ns, 10);
  EXPECT_EQ(report.layers.at(1).comm_ns, 15);
  EXPECT_EQ(report.layers.at(1).exposed_ns, 0);
  ASSERT_EQ(report.gaps.size(), 3U);
  EXPECT_EQ(report.gaps[0].length(), 10);
  EXPECT_EQ(report.gaps[0].after, "");
  EXPECT_EQ(report.gaps[0].before, "u0/L0/attention");
  EXPECT_EQ(report.gaps[0].beside, "");
  EXPECT_EQ(report.gaps[1].after, "u1/L0/attention");
  EXPECT_EQ(report.gaps[1].before, "u0/L0/experts");
  EXPECT_EQ(report.gaps[1].beside, "u0/L0/dispatch");
  EXPECT_EQ(report.gaps[2].before, "");
  EXPECT_EQ(analyse_overlap(spans, 1).gaps.size(), 1U);
}

TEST(Overlap, WithoutCommunicationThereIsNoEfficiency) {
  const std::vector<TraceSpan> spans{span("compute", "u0/L0/attention", 0, 9)};
  const OverlapReport report = analyse_overlap(spans, 3);
  EXPECT_EQ(report.steps.at(0).name, "whole trace");
  EXPECT_FALSE(report.total.efficiency());
  EXPECT_TRUE(report.gaps.empty());
  EXPECT_TRUE(analyse_overlap({}, 3).steps.empty());
}

TEST(Overlap, SerialIsZeroAndPerfectIsOne) {
  EXPECT_DOUBLE_EQ(*analyse_overlap(std::vector{span("compute", "a", 0, 7), span("comm", "b", 7, 12)}, 0).total.efficiency(), 0);
  EXPECT_DOUBLE_EQ(*analyse_overlap(std::vector{span("compute", "a", 0, 7), span("comm", "b", 2, 6)}, 0).total.efficiency(), 1);
}

TEST(Overlap, LayersOfNames) {
  EXPECT_EQ(layer_of("u0/L12/dispatch"), 12);
  for (const char* name : {"u0/logits", "", "u0/L/x", "u0/L12", "step 1", "u0/Lx/y", "u0/L1x/y"}) EXPECT_EQ(layer_of(name), -1) << name;
}

/// The same figures by looking at every nanosecond.
struct Slow {
  int64_t compute = 0, comm = 0, exposed = 0;
};
Slow by_instants(const std::vector<TraceSpan>& spans, int rank, int64_t begin, int64_t end, int64_t last) {
  Slow out;
  for (int64_t t = begin; t < last; ++t) {
    const auto busy = [&](bool wants_compute) {
      return std::any_of(spans.begin(), spans.end(), [&](const TraceSpan& s) {
        const bool right = wants_compute ? s.lane == "compute" : is_communication(s);
        return right && s.rank == rank && s.begin_ns >= begin && s.begin_ns < end && s.begin_ns <= t && t < s.end_ns;
      });
    };
    const bool computes = busy(true), sends = busy(false);
    out.compute += computes ? 1 : 0;
    out.comm += sends ? 1 : 0;
    out.exposed += sends && !computes ? 1 : 0;
  }
  return out;
}

TEST(Overlap, RandomTracesAgreeWithCountingInstants) {
  const std::vector<std::string> lanes{"compute", "compute", "comm", "link", "host"};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto draw = [&](uint64_t i, uint64_t what, int64_t below) {
      return static_cast<int64_t>(uniform(seed, i, what) * static_cast<double>(below));
    };
    std::vector<TraceSpan> spans;
    for (int rank = 0; rank < 2; ++rank) {
      for (int step = 0; step < 3; ++step) {
        spans.push_back({rank, "host", "step " + std::to_string(step), step * 100, step * 100 + 80, {}});
      }
    }
    for (uint64_t i = 0; i < 30; ++i) {
      const int64_t begin = draw(i, 0, 300);
      spans.push_back({static_cast<int>(draw(i, 1, 2)), lanes[static_cast<size_t>(draw(i, 2, 5))],
                       "u0/L" + std::to_string(draw(i, 3, 4)) + "/x", begin, begin + draw(i, 4, 30), {}});
    }
    std::rotate(spans.begin(), spans.begin() + draw(99, 0, 36), spans.end());
    const OverlapReport report = analyse_overlap(spans, 1000);
    ASSERT_EQ(report.steps.size(), 6U);
    OverlapTimes sum;
    for (const StepOverlap& step : report.steps) {
      const Slow slow = by_instants(spans, step.rank, step.begin_ns, step.begin_ns + 80, step.begin_ns + 200);
      EXPECT_EQ(step.times.compute_ns, slow.compute);
      EXPECT_EQ(step.times.comm_ns, slow.comm);
      EXPECT_EQ(step.times.exposed_ns, slow.exposed);
      LayerOverlap layers;
      for (const auto& [layer, times] : step.layers) {
        layers.comm_ns += times.comm_ns;
        layers.exposed_ns += times.exposed_ns;
      }
      EXPECT_EQ(layers.comm_ns, step.times.comm_ns);
      EXPECT_EQ(layers.exposed_ns, step.times.exposed_ns);
      sum += step.times;
    }
    EXPECT_EQ(sum.bound_ns, report.total.bound_ns);
    EXPECT_TRUE(std::is_sorted(report.gaps.begin(), report.gaps.end(),
                               [](const Gap& a, const Gap& b) { return a.length() > b.length(); }));
  }
}

}  // namespace
}  // namespace hocket::telemetry
