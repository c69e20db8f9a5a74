// What each command does once its options are known. Every function prints its own result and returns the exit code.
#pragma once
#include "cli/options.h"
#include "cli/session.h"
#include "sim/cost_file.h"

namespace hocket::cli {

int serve(const Options& options);
int generate(const Options& options);
int evaluate(const Options& options);
int bench_throughput(const Options& options);
int bench_calibrate(const Options& options);
int trace(const Options& options);
int simulate(const Options& options);
int tune(const Options& options);

/// The configuration with what was left open filled in: the bundled model, and with it two ranks and expert parallelism
/// unless a parallel flag was given; the cost table read. Fails (config) if that was measured on something else.
Expected<engine::Config> resolve(const EngineOptions& options);
/// What a cost table of this configuration is measured on and has to agree with.
sim::CostOrigin cost_origin(const engine::Config& config);
/// Prints `failure` to standard error, a line each, and returns its exit code.
int report(const Failure& failure);

}  // namespace hocket::cli
