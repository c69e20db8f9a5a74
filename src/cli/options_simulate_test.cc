// The flags of simulate and tune.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/virtual_setup.h"

namespace hocket::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Options parse(std::vector<std::string> arguments) {
  auto options = parse_options(arguments, {});
  if (!options) throw std::runtime_error(options.error().front());
  return *options;
}
std::vector<std::string> errors(std::vector<std::string> arguments) {
  const auto options = parse_options(arguments, {});
  return options ? std::vector<std::string>{} : options.error();
}

TEST(SimulateOptions, BecomeASetupAndAWorkload) {
  const Options options =
      parse({"simulate", "--model", "deepseek-v3", "--hardware", "h800", "--num-gpus", "16", "--all2all-backend", "ll",
             "--input-len", "4096", "--output-len", "8", "--max-concurrency", "64", "--num-prompts", "128", "--no-enable-dbo",
             "--event-capture", "after-yield", "--comm-sms", "24", "--ubatch-size", "3", "--routing", "zipf:0.8",
             "--schedule", "vllm", "--max-num-batched-tokens", "4k", "--json"});
  const auto setup = virtual_setup(options);
  ASSERT_TRUE(setup);
  EXPECT_EQ(setup->model.name, "deepseek-v3");
  EXPECT_EQ(setup->hardware.name, "h800-sxm");
  EXPECT_EQ(setup->ranks, 16);
  EXPECT_EQ(setup->comm_sms, 24);
  EXPECT_EQ(setup->capture, sim::EventCapture::after_yield);
  EXPECT_EQ(setup->schedule, sim::Schedule::vllm);
  EXPECT_EQ(setup->routing.exponent, 0.8);
  const sim::Workload workload = virtual_workload(options);
  EXPECT_EQ(workload.backend, sim::Backend::low_latency);
  EXPECT_EQ(workload.input_len, 4096);
  EXPECT_EQ(workload.output_len, 8);
  EXPECT_EQ(workload.concurrency, 64);
  EXPECT_EQ(workload.prompts, 128);
  EXPECT_EQ(workload.max_batched_tokens, 4000);
  EXPECT_EQ(workload.policy.ubatches, 3);
  EXPECT_FALSE(workload.policy.enabled);
  EXPECT_EQ(options.simulate.output, Output::json);
}

TEST(SimulateOptions, DefaultsAreThoseOfTheHardware) {
  const Options options = parse({"simulate", "--hardware", "b200"});
  EXPECT_EQ(virtual_setup(options)->model.name, "qwen3-30b-a3b");
  EXPECT_EQ(virtual_setup(options)->comm_sms, 20);
  EXPECT_EQ(virtual_workload(options).max_batched_tokens, 0);
  EXPECT_TRUE(virtual_workload(options).policy.enabled);
}

TEST(SimulateOptions, WrongValuesAreNamed) {
  EXPECT_THAT(errors({"simulate", "--routing", "zipf"}),
              ElementsAre("configuration error: --routing zipf: expected uniform, zipf:S with S from 0 to 4, or one-expert."));
  EXPECT_THAT(errors({"simulate", "--event-capture", "late"}), ElementsAre(HasSubstr("expected before-yield or after-yield.")));
  EXPECT_THAT(errors({"tune", "--json"}), ElementsAre(HasSubstr("option --json belongs to")));
  EXPECT_THAT(virtual_setup(parse({"simulate", "--model", "x", "--hardware", "y"})).error(),
              ElementsAre(HasSubstr("model x: no preset"), HasSubstr("hardware y: no preset")));
  EXPECT_THAT(sim::problems({.concurrency = 2}, *virtual_setup(parse({"simulate", "--num-gpus", "6", "--comm-sms", "132"}))),
              ElementsAre("--num-gpus 6 does not divide the 128 experts of qwen3-30b-a3b.",
                          "--comm-sms 132: h200-sxm has 132 SMs. Use 1..131.",
                          "--max-concurrency 2 leaves ranks of --num-gpus 6 idle. Use 6 or more."));
}

TEST(SimulateOptions, HelpHasAGroupOfItsOwn) {
  const std::string help = parse({"simulate", "--help"}).help;
  EXPECT_THAT(help, HasSubstr("\nSimulation\n  --hardware NAME"));
  EXPECT_THAT(help, HasSubstr("--enable-dbo"));
  EXPECT_THAT(help, Not(HasSubstr("--cpu-threads")));
  EXPECT_THAT(parse({"tune", "--help"}).help, HasSubstr("--output FILE"));
}

}  // namespace
}  // namespace hocket::cli
