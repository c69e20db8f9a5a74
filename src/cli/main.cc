#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "cli/commands.h"

namespace hocket::cli {
namespace {

int run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  auto options = parse_options(arguments, process_environment());
  if (!options) {
    for (const std::string& error : options.error()) fmt::print(stderr, "{}\n", error);
    return 2;
  }
  log::set_level(options->log_level);
  for (const std::string& note : options->notes) fmt::print(stderr, "{}\n", note);
  switch (options->verb) {
    case Verb::help: fmt::print("{}", options->help); return 0;
    case Verb::version: fmt::print("hocket {}\n", HOCKET_VERSION); return 0;
    case Verb::serve: return serve(*options);
    case Verb::generate: return generate(*options);
    case Verb::eval: return evaluate(*options);
    case Verb::bench_throughput: return bench_throughput(*options);
    case Verb::bench_calibrate: return bench_calibrate(*options);
    case Verb::trace: return trace(*options);
    case Verb::simulate: return simulate(*options);
    case Verb::tune: return tune(*options);
  }
  return 2;
}

}  // namespace
}  // namespace hocket::cli

int main(int argc, char** argv) {
  try {
    return hocket::cli::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "hocket: {}\n", error.what());
    return 1;
  }
}
