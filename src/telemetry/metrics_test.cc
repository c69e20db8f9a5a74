#include "telemetry/metrics.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hocket::telemetry {
namespace {

using testing::HasSubstr;

TEST(Metrics, TextIsPrometheusWithNamesAsWritten) {
  Metrics metrics;
  metrics.counter("vllm:request_success_total", "Finished requests.", {{"finished_reason", "stop"}}).add(2);
  EXPECT_EQ(metrics.prometheus_text(),
            "# HELP vllm:request_success_total Finished requests.\n"
            "# TYPE vllm:request_success_total counter\n"
            "vllm:request_success_total{finished_reason=\"stop\"} 2\n");
}

TEST(Metrics, AskingTwiceGivesTheSameMetric) {
  Metrics metrics;
  Counter& a = metrics.counter("x_total", "x", {{"k", "1"}});
  Counter& b = metrics.counter("x_total", "another help text", {{"k", "1"}});
  Counter& c = metrics.counter("x_total", "x", {{"k", "2"}});
  EXPECT_EQ(&a, &b);
  EXPECT_NE(&a, &c);
  a.add(1);
  b.add(2);
  EXPECT_EQ(a.value(), 3);
  EXPECT_EQ(c.value(), 0);
}

TEST(Metrics, GaugesKeepTheLastValue) {
  Metrics metrics;
  Gauge& gauge = metrics.gauge("depth", "Depth.");
  gauge.set(4);
  gauge.set(1.5);
  EXPECT_EQ(gauge.value(), 1.5);
  EXPECT_THAT(metrics.prometheus_text(), HasSubstr("\ndepth 1.5\n"));
}

TEST(Metrics, HistogramBucketsAreCumulative) {
  Metrics metrics;
  Histogram& histogram = metrics.histogram("t_seconds", "Time.", {0.5, 1, 2});
  for (double v : {0.25, 0.75, 0.75, 4.0}) histogram.observe(v);
  EXPECT_THAT(metrics.prometheus_text(), HasSubstr("# TYPE t_seconds histogram\n"
                                                   "t_seconds_count 4\n"
                                                   "t_seconds_sum 5.75\n"
                                                   "t_seconds_bucket{le=\"0.5\"} 1\n"
                                                   "t_seconds_bucket{le=\"1\"} 3\n"
                                                   "t_seconds_bucket{le=\"2\"} 3\n"
                                                   "t_seconds_bucket{le=\"+Inf\"} 4\n"));
}

TEST(Metrics, LabelValuesAreEscaped) {
  Metrics metrics;
  metrics.gauge("g", "help", {{"model_name", "a\"b\\c\nd"}}).set(1);
  EXPECT_THAT(metrics.prometheus_text(), HasSubstr("g{model_name=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST(Metrics, ThreadsLoseNothing) {
  Metrics metrics;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics] {
      for (int i = 0; i < 1000; ++i) metrics.counter("n_total", "n").add(1);
    });
  }
  threads.clear();
  EXPECT_EQ(metrics.counter("n_total", "n").value(), 4000);
}

}  // namespace
}  // namespace hocket::telemetry
