// What `simulate` and `tune` share: options become a model of a step and a workload.
#pragma once
#include "cli/options.h"

namespace hocket::cli {

/// Fails with every contradiction, one line each, or with the preset or file that cannot be read.
tl::expected<sim::StepSetup, std::vector<std::string>> virtual_setup(const Options& options);
sim::Workload virtual_workload(const Options& options);
/// Prints the lines as configuration errors; returns the exit code.
int refuse(const std::vector<std::string>& problems);

}  // namespace hocket::cli
