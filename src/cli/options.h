// What a user typed: command line, HOCKET_* environment and YAML file become plain structs. Values are checked here one by
// one; whether they go together is engine::validate's question.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "engine/config.h"
#include "sched/request.h"
#include "server/server.h"
#include "sim/workload.h"

namespace hocket::cli {

enum class Verb : uint8_t { help, version, serve, generate, eval, bench_throughput, bench_calibrate, trace, simulate, tune };
enum class Output : uint8_t { text, json };

/// Where "not given" has a meaning of its own, `config` keeps its default and the flag is here.
struct EngineOptions {
  engine::Config config;  ///< config.model empty: the bundled model
  std::optional<int> data_parallel;
  std::optional<bool> expert_parallel;
  std::filesystem::path trace;  ///< where the trace goes; empty: none
  std::filesystem::path cost_table;  ///< read by resolve(); empty: none
};

struct GenerateOptions {
  std::vector<std::string> prompts;
  std::filesystem::path prompt_file;  ///< empty: none
  sched::SamplingParams sampling{.temperature = 0, .max_tokens = 128};  ///< seed: --seed
  Output output = Output::text;
};

struct EvalOptions {
  std::filesystem::path problems, fewshot;
  int64_t num_fewshot = 5, max_tokens = 256;
  std::optional<int64_t> limit;
  Output output = Output::text;
};

struct ThroughputOptions {
  int64_t input_len = 1024, output_len = 128, num_prompts = 1000;
  std::filesystem::path output_json;  ///< empty: none
};

struct CalibrateOptions {
  std::filesystem::path output{"costs.json"};
};

struct TraceOptions {
  std::filesystem::path file, svg;  ///< svg empty: none
  std::optional<int64_t> step;
  Output output = Output::text;
};

/// Model, overlap and lengths stand where the other commands have them.
struct SimulateOptions {
  std::string hardware = "h200-sxm";
  int ranks = 8;
  int64_t max_concurrency = 0;                ///< 0: no limit
  std::optional<int64_t> max_batched_tokens;  ///< else the hardware's
  std::optional<int> comm_sms;                ///< else the hardware's
  sim::Schedule schedule = sim::Schedule::hocket;
  sim::EventCapture capture = sim::EventCapture::before_yield;
  sim::RoutingSpec routing;
  Output output = Output::text;
  std::filesystem::path output_yaml;  ///< with Verb::tune; empty: standard output only
};

struct Options {
  Verb verb = Verb::help;
  EngineOptions engine;
  server::Options server;      ///< with Verb::serve
  GenerateOptions generate;    ///< with Verb::generate
  EvalOptions eval;            ///< with Verb::eval
  ThroughputOptions throughput;  ///< with Verb::bench_throughput
  CalibrateOptions calibrate;  ///< with Verb::bench_calibrate
  TraceOptions trace;          ///< with Verb::trace
  SimulateOptions simulate;    ///< with Verb::simulate and Verb::tune
  log::Level log_level = log::Level::info;
  std::string help;                ///< with Verb::help: the text to print
  std::vector<std::string> notes;  ///< lines for standard error: aliases taken, variables that nobody reads
};

/// `arguments` without the program's name; `environment` as "NAME=value". The command line wins over the environment, the
/// environment over --config FILE.yaml. Fails with every problem found, one line each, for exit code 2. Pure but for
/// reading the YAML file.
tl::expected<Options, std::vector<std::string>> parse_options(std::span<const std::string> arguments,
                                                              std::span<const std::string> environment);
/// The process's environment in the form that parse_options() takes.
std::vector<std::string> process_environment();

}  // namespace hocket::cli
