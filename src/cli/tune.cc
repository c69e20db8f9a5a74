// `hocket tune`: crossover tables, and the thresholds as a file for serve --config.
#include <cstdio>
#include <fstream>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/virtual_setup.h"
#include "sim/tune.h"

namespace hocket::cli {

int tune(const Options& options) {
  auto setup = virtual_setup(options);
  if (!setup) return refuse(setup.error());
  const sim::Workload workload = virtual_workload(options);
  if (const auto problems = sim::problems(workload, *setup); !problems.empty()) return refuse(problems);
  const sim::StepModel model(std::move(*setup));
  const sim::Tuning tuning = sim::tune(model, workload);
  const std::string yaml = sim::tuning_yaml(model, tuning);
  fmt::print("{}\n{}\n{}", sim::setup_text(model, workload), sim::tuning_text(model, tuning), yaml);
  const std::filesystem::path& path = options.simulate.output_yaml;
  if (path.empty()) return 0;
  std::ofstream file(path);
  file << yaml;
  file.close();
  if (!file) return report({Code::internal, fmt::format("{}: cannot be written.", path.string())});
  return 0;
}

}  // namespace hocket::cli
