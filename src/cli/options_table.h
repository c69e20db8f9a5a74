// Every flag once: its names, the commands that take it, its help and where its value goes. Command line, environment, YAML
// and --help are all read from this table.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace hocket::cli {

enum class Group : uint8_t { model, device, parallelism, overlap, scheduler, server, limits, prompt, sampling, simulation, task, general };
std::string_view title(Group group);

/// Takes a value into the options. Returns what is wrong with it, or nothing.
using Setter = std::string (*)(Options& options, std::string_view value);
enum class Takes : uint8_t { value, values, boolean };  ///< values: the flag may be repeated

struct Flag {
  std::string_view name;        ///< without dashes, words joined by '-'
  std::string_view alias;       ///< short name without its dash, or empty
  unsigned verbs;               ///< bits of verb_bit()
  Group group;
  Takes takes;
  std::string_view value_name;  ///< in --help; for a boolean, its default
  std::string_view help;
  Setter set;
};

constexpr unsigned verb_bit(Verb verb) { return 1U << static_cast<unsigned>(verb); }
constexpr unsigned kEngineVerbs =
    verb_bit(Verb::serve) | verb_bit(Verb::generate) | verb_bit(Verb::eval) | verb_bit(Verb::bench_throughput) |
    verb_bit(Verb::bench_calibrate);

std::span<const Flag> engine_flags();   ///< of every command that starts an engine
std::span<const Flag> command_flags();  ///< of single commands

/// One value of one flag and where it stood: "--port 99999", "HOCKET_PORT=99999", "serve.yaml:7: port 99999".
struct Given {
  const Flag* flag;
  std::string value;  ///< "true" or "false" for a boolean that could be read
  std::string where;
};
using FindFlag = std::function<const Flag*(std::string_view name)>;             ///< by its name with '-'; or null
using Suggest = std::function<std::string(std::string_view name)>;              ///< ` Did you mean "x"?` or nothing
/// The flags of a YAML file in its order. Problems (unknown or double key, wrong type, bad YAML) are appended to `errors`,
/// each with file and line. Source: yaml-cpp 0.7, which keeps double keys.
std::vector<Given> read_yaml(const std::filesystem::path& file, const FindFlag& find, const Suggest& suggest,
                             std::vector<std::string>& errors);

}  // namespace hocket::cli
