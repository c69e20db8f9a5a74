#include "cli/virtual_setup.h"

#include <cstdio>

#include <fmt/format.h>

namespace hocket::cli {

tl::expected<sim::StepSetup, std::vector<std::string>> virtual_setup(const Options& options) {
  const std::string model = options.engine.config.model.string();
  auto spec = sim::load_model_spec(model.empty() ? "qwen3-30b-a3b" : model);
  auto hardware = sim::load_hardware(options.simulate.hardware);
  std::vector<std::string> problems;
  if (!spec) problems.push_back(spec.error().message);
  if (!hardware) problems.push_back(hardware.error().message);
  if (options.engine.config.backend == engine::BackendChoice::allgather)
    problems.push_back("--all2all-backend allgather is not simulated. Use auto, high_throughput or low_latency.");
  if (!problems.empty()) return tl::unexpected(problems);
  sim::StepSetup setup{.model = std::move(*spec), .hardware = std::move(*hardware), .ranks = options.simulate.ranks};
  setup.comm_sms = options.simulate.comm_sms.value_or(static_cast<int>(setup.hardware.comm_sms));
  setup.schedule = options.simulate.schedule;
  setup.capture = options.simulate.capture;
  setup.routing = options.simulate.routing;
  return setup;
}

sim::Workload virtual_workload(const Options& options) {
  const engine::Config& config = options.engine.config;
  sim::Workload workload{.input_len = options.throughput.input_len,
                         .output_len = options.throughput.output_len,
                         .prompts = options.throughput.num_prompts,
                         .concurrency = options.simulate.max_concurrency,
                         .max_batched_tokens = options.simulate.max_batched_tokens.value_or(0),
                         .max_seqs = config.max_seqs};
  using engine::BackendChoice;
  if (config.backend == BackendChoice::high_throughput) workload.backend = sim::Backend::high_throughput;
  if (config.backend == BackendChoice::low_latency) workload.backend = sim::Backend::low_latency;
  workload.policy.enabled = config.dbo != engine::Switch::off;
  workload.policy.kind = config.policy;
  workload.policy.ubatches = config.ubatches.value_or(2);
  workload.policy.decode_threshold = config.decode_threshold;
  workload.policy.prefill_threshold = config.prefill_threshold;
  workload.cut = config.cut;
  return workload;
}

int refuse(const std::vector<std::string>& problems) {
  for (const std::string& problem : problems) fmt::print(stderr, "configuration error: {}\n", problem);
  return 2;
}

}  // namespace hocket::cli
