#include "cli/options.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/options_help.h"
#include "cli/options_table.h"
#include "cli/options_values.h"

namespace hocket::cli {
namespace {

using Errors = std::vector<std::string>;

struct Command {
  Verb verb;
  std::string_view words;
};
constexpr Command kCommands[] = {{Verb::serve, "serve"},
                                 {Verb::generate, "generate"},
                                 {Verb::eval, "eval"},
                                 {Verb::bench_throughput, "bench throughput"},
                                 {Verb::bench_calibrate, "bench calibrate"},
                                 {Verb::trace, "trace"},
                                 {Verb::simulate, "simulate"},
                                 {Verb::tune, "tune"}};

const Flag* find_in(std::span<const Flag> flags, std::string_view name) {
  const auto it = std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == name; });
  return it == flags.end() ? nullptr : &*it;
}
const Flag* find_any(std::string_view name) {
  const Flag* flag = find_in(engine_flags(), name);
  return flag != nullptr ? flag : find_in(command_flags(), name);
}
std::vector<std::string_view> names_for(unsigned verbs) {
  std::vector<std::string_view> names;
  for (std::span<const Flag> flags : {engine_flags(), command_flags()}) {
    for (const Flag& flag : flags) {
      if ((flag.verbs & verbs) != 0) names.push_back(flag.name);
    }
  }
  return names;
}

/// Reads one command's arguments into values of flags; nothing is set yet.
class ArgumentReader {
 public:
  ArgumentReader(Verb verb, Errors& errors) : verb_(verb), errors_(errors) {}

  std::vector<Given> read(std::span<const std::string> arguments) {
    rest_ = arguments;
    bool flags_allowed = true;
    while (!rest_.empty()) {
      const std::string& word = next();
      if (flags_allowed && word == "--") {
        flags_allowed = false;
      } else if (flags_allowed && word.size() > 1 && word.front() == '-') {
        read_flag(word);
      } else {
        read_positional(word);
      }
    }
    return std::move(given_);
  }

 private:
  const std::string& next() {
    const std::string& word = rest_.front();
    rest_ = rest_.subspan(1);
    return word;
  }
  void read_positional(const std::string& word) {
    if (positional_) {
      errors_.push_back(fmt::format("unexpected argument {}: a {} was already given.", word,
                                    verb_ == Verb::trace ? "file" : "model"));
      return;
    }
    positional_ = true;
    const bool trace = verb_ == Verb::trace;
    given_.push_back({find_any(trace ? "file" : "model"), word, fmt::format("{} {}", trace ? "FILE" : "MODEL", word)});
  }
  /// `--some_name`, `--no-name` or an alias, as the table spells it.
  static std::string folded(std::string_view word) {
    if (!word.starts_with("--")) {
      for (std::span<const Flag> flags : {engine_flags(), command_flags()}) {
        for (const Flag& flag : flags) {
          if (!flag.alias.empty() && word.substr(1) == flag.alias) return std::string(flag.name);
        }
      }
      return std::string(word.substr(1));
    }
    std::string name(word.substr(2));
    std::replace(name.begin(), name.end(), '_', '-');
    return name;
  }
  void read_flag(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string_view spelled = std::string_view(word).substr(0, equals);
    const std::string name = folded(spelled);
    const Flag* flag = find_any(name);
    const bool negated = flag == nullptr && name.starts_with("no-");
    if (negated) flag = find_any(std::string_view(name).substr(3));
    if (flag == nullptr || (negated && flag->takes != Takes::boolean)) return refuse_unknown(spelled, name);
    if ((flag->verbs & verb_bit(verb_)) == 0) {
      errors_.push_back(fmt::format("option {} belongs to `hocket {}`.", spelled, owner(*flag)));
      return;
    }
    const std::string label = fmt::format("--{}", name);
    if (flag->takes != Takes::boolean) {
      if (equals == std::string::npos && rest_.empty()) {
        errors_.push_back(fmt::format("{}: expected a value.", label));
        return;
      }
      const std::string value = equals != std::string::npos ? word.substr(equals + 1) : next();
      given_.push_back({flag, value, fmt::format("{} {}", label, value)});
    } else if (equals == std::string::npos) {
      given_.push_back({flag, negated ? "false" : "true", label});
    } else if (negated) {
      errors_.push_back(fmt::format("{} takes no value.", label));
    } else {
      given_.push_back({flag, word.substr(equals + 1), fmt::format("{} {}", label, word.substr(equals + 1))});
    }
  }
  static std::string_view owner(const Flag& flag) {
    for (const Command& command : kCommands) {
      if ((flag.verbs & verb_bit(command.verb)) != 0) return command.words;
    }
    return {};
  }
  void refuse_unknown(std::string_view spelled, const std::string& name) {
    std::vector<std::string> with_dashes;
    for (std::string_view known : names_for(verb_bit(verb_))) {
      with_dashes.push_back(std::string(known));
      if (find_any(known)->takes == Takes::boolean) with_dashes.push_back("no-" + std::string(known));
    }
    const auto best = nearest(name, {with_dashes.begin(), with_dashes.end()});
    errors_.push_back(fmt::format("unknown option {}.{}", spelled, best ? fmt::format(" Did you mean --{}?", *best) : ""));
  }

  Verb verb_;
  Errors& errors_;
  std::span<const std::string> rest_;
  std::vector<Given> given_;
  bool positional_ = false;
};

std::string variable_of(std::string_view flag) {
  std::string name = "HOCKET_";
  for (char c : flag) name += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

/// HOCKET_* first, then the one vLLM variable that means the same here.
std::vector<Given> read_environment(Verb verb, std::span<const std::string> environment, std::vector<std::string>& notes) {
  std::map<std::string, const Flag*> flags;
  for (std::string_view name : names_for(~0U)) flags.emplace(variable_of(name), find_any(name));
  std::vector<std::string_view> names;
  for (const auto& [name, flag] : flags) names.push_back(name);

  std::vector<Given> given, aliases;
  for (const std::string& entry : environment) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals), value = entry.substr(equals + 1);
    if (name == "VLLM_ALL2ALL_BACKEND") {
      notes.push_back(fmt::format("{} is read as --all2all-backend.", entry));
      aliases.push_back({find_any("all2all-backend"), value, entry});
    } else if (name.starts_with("VLLM_")) {
      notes.push_back(fmt::format("warning: environment variable {} is not read by Hocket.", name));
    } else if (const auto it = flags.find(name); it != flags.end()) {
      if ((it->second->verbs & verb_bit(verb)) != 0) given.push_back({it->second, value, entry});
    } else if (name.starts_with("HOCKET_")) {
      const auto best = nearest(name, names);
      notes.push_back(fmt::format("warning: unknown environment variable {}.{}", name,
                                  best ? fmt::format(" Did you mean {}?", *best) : ""));
    }
  }
  for (Given& alias : aliases) {
    const bool overruled = std::any_of(given.begin(), given.end(), [&](const Given& g) { return g.flag == alias.flag; });
    if (!overruled) given.push_back(std::move(alias));
  }
  return given;
}

/// The flags of higher sources are already in `all`: what a lower one says about them is dropped.
void add_lower(std::vector<Given>& all, std::vector<Given> lower) {
  const size_t higher = all.size();
  for (Given& given : lower) {
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(higher);
    if (std::none_of(all.begin(), end, [&](const Given& g) { return g.flag == given.flag; })) all.push_back(std::move(given));
  }
}

std::vector<Given> read_config_file(Verb verb, const std::filesystem::path& file, Errors& errors) {
  const FindFlag find = [verb](std::string_view name) -> const Flag* {
    const Flag* flag = find_any(name);
    return flag != nullptr && (flag->verbs & verb_bit(verb)) != 0 ? flag : nullptr;
  };
  const Suggest suggest = [verb](std::string_view key) -> std::string {
    std::string name(key);
    std::replace(name.begin(), name.end(), '_', '-');
    const auto best = nearest(name, names_for(verb_bit(verb)));
    if (!best) return {};
    std::string answer(*best);
    if (key.find('_') != std::string_view::npos) std::replace(answer.begin(), answer.end(), '-', '_');
    return fmt::format(" Did you mean \"{}\"?", answer);
  };
  return read_yaml(file, find, suggest, errors);
}

void set(const Given& given, Options& options, Errors& errors) {
  std::string value = given.value;
  if (given.flag->takes == Takes::boolean) {
    const auto boolean = parse_boolean(value);
    if (!boolean) {
      errors.push_back(fmt::format("{}: expected a boolean (1/0, true/false, yes/no, on/off).", given.where));
      return;
    }
    value = *boolean ? "true" : "false";
  }
  if (given.flag->set == nullptr) return;
  const std::string problem = given.flag->set(options, value);
  if (!problem.empty()) errors.push_back(fmt::format("{}: {}", given.where, problem));
}

/// What no single flag can say.
void finish(Options& options, Errors& errors) {
  engine::Config& config = options.engine.config;
  config.data_parallel = options.engine.data_parallel.value_or(config.data_parallel);
  config.expert_parallel = options.engine.expert_parallel.value_or(config.expert_parallel);
  options.generate.sampling.seed = config.seed;
  if (options.verb == Verb::trace && options.trace.file.empty()) errors.push_back("no trace. Give the FILE that --trace wrote.");
  if (options.verb != Verb::generate) return;
  if (options.generate.prompts.empty() && options.generate.prompt_file.empty()) {
    errors.push_back("no prompt. Give --prompt TEXT or --prompt-file FILE.");
  }
  const sched::SamplingParams& sampling = options.generate.sampling;
  if (sampling.min_tokens > sampling.max_tokens) {
    errors.push_back(fmt::format("--min-tokens {} is above --max-tokens {}.", sampling.min_tokens, sampling.max_tokens));
  }
}

tl::unexpected<Errors> refuse(Errors errors) {
  for (std::string& error : errors) error = "configuration error: " + error;
  return tl::unexpected<Errors>(std::move(errors));
}

tl::expected<Options, Errors> parse_command(const Command& command, std::span<const std::string> arguments,
                                            std::span<const std::string> environment) {
  Options options;
  options.verb = command.verb;
  options.engine.config.isa = best_isa();
  Errors errors;
  std::vector<Given> all = ArgumentReader(command.verb, errors).read(arguments);
  add_lower(all, read_environment(command.verb, environment, options.notes));
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const Given& g) { return g.flag->name == "config"; });
  if (last != all.rend()) add_lower(all, read_config_file(command.verb, last->value, errors));
  for (const Given& given : all) set(given, options, errors);
  finish(options, errors);
  if (!errors.empty()) return refuse(std::move(errors));
  return options;
}

bool asks_for_help(std::span<const std::string> arguments) {
  for (const std::string& word : arguments) {
    if (word == "--") return false;
    if (word == "--help" || word == "-h") return true;
  }
  return false;
}

}  // namespace

tl::expected<Options, std::vector<std::string>> parse_options(std::span<const std::string> arguments,
                                                              std::span<const std::string> environment) {
  Options answer;
  for (const Command& command : kCommands) {
    const bool two_words = command.words.find(' ') != std::string_view::npos;
    const size_t words = two_words ? 2 : 1;
    if (arguments.size() < words || fmt::format("{}", fmt::join(arguments.first(words), " ")) != command.words) continue;
    if (!asks_for_help(arguments.subspan(words))) return parse_command(command, arguments.subspan(words), environment);
    answer.help = command_help(command.verb, command.words);
    return answer;
  }
  if (!arguments.empty() && (arguments[0] == "--version" || arguments[0] == "version")) {
    answer.verb = Verb::version;
    return answer;
  }
  if (asks_for_help(arguments) || (!arguments.empty() && arguments[0] == "help")) {
    answer.help = general_help();
    return answer;
  }
  constexpr std::string_view kUse = "Use serve, generate, eval, bench throughput, trace, simulate or tune; `hocket --help` explains.";
  if (arguments.empty()) return refuse({fmt::format("no command. {}", kUse)});
  if (arguments[0] == "bench") return refuse({"bench what? Use `hocket bench throughput`."});
  const auto best = nearest(arguments[0], {"serve", "generate", "eval", "bench", "trace", "simulate", "tune"});
  return refuse({fmt::format("unknown command {}. {}", arguments[0], best ? fmt::format("Did you mean {}?", *best) : kUse)});
}

std::vector<std::string> process_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace hocket::cli
