// `hocket tune`: crossover tables, and the thresholds as a file for serve --config.
#include <cstdio>

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
  if (auto written = write_file(path, yaml); !written) return report(written.error());
  return 0;
}

}  // namespace hocket::cli
