#include <cstdio>

#include <fmt/format.h>

#include "cli/commands.h"

namespace hocket::cli {

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
  return config;
}

int report(const Failure& failure) {
  fmt::print(stderr, "{}\n", failure.message);
  return exit_code(failure.code);
}

}  // namespace hocket::cli
