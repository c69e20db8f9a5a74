#include <cstdio>

#include <fmt/format.h>

#include "cli/commands.h"

namespace hocket::cli {

sim::CostOrigin cost_origin(const engine::Config& config) {
  const int threads = engine::threads_per_rank(config);
  std::string device = fmt::format("cpu {}, {} thread{} a rank", name(config.isa), threads, threads == 1 ? "" : "s");
  if (config.link.bytes_per_second > 0 || config.link.latency.count() > 0) {
    device += fmt::format(", emulated link of {:g} GB/s and {:g} us", config.link.bytes_per_second * 1e-9,
                          static_cast<double>(config.link.latency.count()) * 1e-3);
  }
  return {device, config.model.filename().string(), config.data_parallel};
}

namespace {

Expected<void> read_costs(const std::filesystem::path& path, engine::Config& config) {
  auto file = sim::read_cost_file(path);
  if (!file) return tl::unexpected(file.error());
  const sim::CostOrigin here = cost_origin(config), &there = file->origin;
  const auto differ = [&](std::string_view what, const auto& theirs, const auto& ours) {
    return fail(Code::config, fmt::format("configuration error: --cost-table {} was measured for {} {}, this run has {}. Measure "
                                          "again with hocket bench calibrate, or remove --cost-table.",
                                          path.string(), what, theirs, ours));
  };
  if (there.device != here.device) return differ("device", there.device, here.device);
  if (there.model != here.model) return differ("model", there.model, here.model);
  if (there.ranks != here.ranks) return differ("a number of ranks of", there.ranks, here.ranks);
  config.costs = std::make_shared<const dbo::CostTable>(std::move(file->table));
  return {};
}

}  // namespace

Expected<engine::Config> resolve(const EngineOptions& options) {
  engine::Config config = options.config;
  const bool open = !options.data_parallel && !options.expert_parallel;
  config.data_parallel = options.data_parallel.value_or(1);
  config.expert_parallel = options.expert_parallel.value_or(false);
  if (config.model.empty()) {
    auto bundled = bundled_model();
    if (!bundled) return tl::unexpected(bundled.error());
    config.model = *bundled;
    if (open) {
      config.data_parallel = 2;
      config.expert_parallel = true;
    }
  }
  if (!config.model.has_filename()) config.model = config.model.parent_path();  // "models/tiny/" names its folder
  if (!options.cost_table.empty()) {
    if (auto read = read_costs(options.cost_table, config); !read) return tl::unexpected(read.error());
  }
  return config;
}

int report(const Failure& failure) {
  fmt::print(stderr, "{}\n", failure.message);
  return exit_code(failure.code);
}

}  // namespace hocket::cli
