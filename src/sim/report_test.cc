// Tables, pictures and advice as text.
#include "sim/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/draw.h"
#include "sim/tune.h"

namespace hocket::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

StepSetup box(const char* hardware, int ranks) {
  return {.model = *load_model_spec("qwen3-30b-a3b"),
          .hardware = *load_hardware(hardware),
          .ranks = ranks};
}

TEST(Report, TheTableIsThatOfVllmBenchServe) {
  const Workload workload{.input_len = 100, .output_len = 3, .prompts = 2, .concurrency = 2};
  WorkloadResult result;
  result.seconds = 2;
  result.requests = {{100, 300}, {200, 800}};
  EXPECT_EQ(benchmark_table(workload, result),
            "============ Serving Benchmark Result ============\n"
            "Successful requests:                     2         \n"
            "Maximum request concurrency:             2         \n"
            "Benchmark duration (s):                  2.00      \n"
            "Total input tokens:                      200       \n"
            "Total generated tokens:                  6         \n"
            "Request throughput (req/s):              1.00      \n"
            "Output token throughput (tok/s):         3.00      \n"
            "Total Token throughput (tok/s):          103.00    \n"
            "---------------Time to First Token----------------\n"
            "Mean TTFT (ms):                          150.00    \n"
            "Median TTFT (ms):                        150.00    \n"
            "P99 TTFT (ms):                           199.00    \n"
            "-----Time per Output Token (excl. 1st token)------\n"
            "Mean TPOT (ms):                          200.00    \n"
            "Median TPOT (ms):                        200.00    \n"
            "P99 TPOT (ms):                           298.00    \n"
            "==================================================\n");
}

TEST(Report, AdviceFindsWhereAGainBegins) {
  const StepModel model(box("b200", 4));
  const Workload workload{.input_len = 8192};
  const Advice advice =
      advise(model, workload, plain_step(model.setup(), workload, dbo::Phase::prefill, 16384, 2));
  ASSERT_TRUE(advice.threshold && advice.break_even);
  EXPECT_LE(*advice.break_even, *advice.threshold);
  EXPECT_GE(gain(model, workload, dbo::Phase::prefill, *advice.threshold, 2), kMinGain);
  EXPECT_LT(gain(model, workload, dbo::Phase::prefill, *advice.threshold * 9 / 10, 2), kMinGain);
  EXPECT_THAT(advice_text(model, advice), HasSubstr("--dbo-prefill-token-threshold"));
}

TEST(Report, SaysWhatIsCalibratedAndWhatIsNot) {
  EXPECT_THAT(setup_text(StepModel(box("b200", 4)), {}),
              HasSubstr("calibrated: all times x 4.492 (on vLLM #38451"));
  EXPECT_THAT(setup_text(StepModel(box("h200", 4)), {}), HasSubstr("uncalibrated: all operations"));
}

TEST(Tune, WritesTheThresholdsThatItFound) {
  const StepModel model(box("h200", 4));
  const Workload workload{.input_len = 1024, .max_batched_tokens = 4096};
  const Tuning tuning = tune(model, workload);
  EXPECT_EQ(tuning.prefill.rows.back().tokens, 4096);
  const std::string yaml = tuning_yaml(model, tuning);
  ASSERT_TRUE(tuning.prefill.threshold);
  EXPECT_THAT(yaml, HasSubstr("\ndbo-prefill-token-threshold: " +
                              std::to_string(*tuning.prefill.threshold) + "\n"));
  EXPECT_THAT(yaml, HasSubstr("\nubatch-size: 2\n"));
  EXPECT_THAT(tuning_text(model, tuning), HasSubstr("break-even at "));
}

TEST(Tune, ALinkOfAProcessorHasNoSmsToShare) {
  const StepModel model(box("cpu-net", 2));
  const Tuning tuning = tune(model, {.input_len = 256, .max_batched_tokens = 512});
  EXPECT_TRUE(tuning.comm_sms.empty());
  EXPECT_THAT(tuning_yaml(model, tuning), Not(HasSubstr("SMs")));
}

TEST(Draw, MergesLaunchesOfOneStage) {
  device::sim::Timeline timeline;
  timeline.add({"compute", "u0/L1/qkv", Nanos(0), Nanos(5)});
  timeline.add({"compute", "u0/L1/attention", Nanos(5), Nanos(10)});
  timeline.add({"compute", "u1/L1/gate_up", Nanos(12), Nanos(20)});
  timeline.add({"comm", "u0/L1/dispatch", Nanos(10), Nanos(15)});
  EXPECT_EQ(draw(timeline, {.columns = 20}),
            "compute |att0-----  |exp1---\n"
            "comm              |dis0\n"
            "        a column is 0.001 us\n");
}

}  // namespace
}  // namespace hocket::sim
