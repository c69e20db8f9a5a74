#include <chrono>
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/digest.h"
#include "cli/offline.h"

namespace hocket::cli {
namespace {

int print_result(const ThroughputOptions& options, double seconds, const std::string& digest) {
  const auto prompts = static_cast<double>(options.num_prompts);
  const double output = prompts * static_cast<double>(options.output_len);
  const double total = output + prompts * static_cast<double>(options.input_len);
  fmt::print("Throughput: {:.2f} requests/s, {:.2f} total tokens/s, {:.2f} output tokens/s\n", prompts / seconds,
             total / seconds, output / seconds);
  if (options.output_json.empty()) return 0;
  const nlohmann::ordered_json result = {{"elapsed_time", seconds},
                                         {"num_requests", options.num_prompts},
                                         {"total_num_tokens", total},
                                         {"requests_per_second", prompts / seconds},
                                         {"tokens_per_second", total / seconds},
                                         {"output_tokens_per_second", output / seconds},
                                         {"token_ids_sha256", digest}};
  if (auto written = write_file(options.output_json, result.dump(2) + "\n"); !written) return report(written.error());
  return 0;
}

}  // namespace

int bench_throughput(const Options& options) {
  auto config = resolve(options.engine);
  if (!config) return report(config.error());
  const uint64_t seed = config->seed;
  auto session = open_session(std::move(*config), Report::table, options.engine.trace);
  if (!session) return report(session.error());
  const ThroughputOptions& run = options.throughput;
  std::vector<Prompt> prompts = random_prompts(run.num_prompts, run.input_len, run.output_len, *(*session)->tokenizer, seed);
  // one warm-up request: first touches of weights, arenas and cache are not what is measured
  Prompt warm_up = prompts.front();
  warm_up.sampling.max_tokens = 2;
  if (auto warmed = complete(*(*session)->engine, {warm_up}); !warmed) return finish(**session, report(warmed.error()));
  const auto began = std::chrono::steady_clock::now();
  auto completions = complete(*(*session)->engine, std::move(prompts));
  if (!completions) return finish(**session, report(completions.error()));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return finish(**session, print_result(options.throughput, seconds, ids_digest(*completions)));
}

}  // namespace hocket::cli
