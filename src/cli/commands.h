// What each command does once its options are known. Every function prints its own result and returns the exit code.
#pragma once
#include "cli/options.h"
#include "cli/session.h"

namespace hocket::cli {

int serve(const Options& options);
int generate(const Options& options);
int evaluate(const Options& options);
int bench_throughput(const Options& options);
int trace(const Options& options);
int simulate(const Options& options);
int tune(const Options& options);

/// The configuration with what was left open filled in: the bundled model, and with it two ranks and expert parallelism
/// unless a parallel flag was given.
Expected<engine::Config> resolve(const EngineOptions& options);
/// Prints `failure` to standard error, a line each, and returns its exit code.
int report(const Failure& failure);

}  // namespace hocket::cli
