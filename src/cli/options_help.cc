#include "cli/options_help.h"

#include <fmt/format.h>

#include "cli/options_table.h"

namespace hocket::cli {
namespace {

constexpr size_t kColumn = 38;  // where the explanations start

std::string line(const Flag& flag) {
  std::string left = "  ";
  if (!flag.alias.empty()) left += fmt::format("-{}, ", flag.alias);
  left += fmt::format("--{}", flag.name);
  if (flag.takes != Takes::boolean) left += fmt::format(" {}", flag.value_name);
  std::string text = left.size() + 2 <= kColumn ? fmt::format("{:<{}}", left, kColumn)
                                                : fmt::format("{}\n{:<{}}", left, "", kColumn);
  text += flag.help;
  if (flag.takes == Takes::boolean) text += fmt::format("; --no-{} ({})", flag.name, flag.value_name);
  return text + "\n";
}

std::string_view purpose(Verb verb) {
  switch (verb) {
    case Verb::serve: return "Serves the OpenAI completions API over HTTP.";
    case Verb::generate: return "Completes prompts: text to standard output, everything else to standard error.";
    case Verb::eval: return "Few-shot exact match on a file of problems.";
    case Verb::bench_throughput: return "Tokens a second with all requests queued at once, without HTTP.";
    case Verb::bench_calibrate: return "Measures the stages of this machine, model and number of ranks for --dbo-policy auto.";
    case Verb::trace: return "Overlap efficiency, exposed communication and the largest gaps of a trace.";
    case Verb::simulate: return "Throughput, latency and overlap on hardware that need not be there: the engine on virtual clocks.";
    case Verb::tune: return "Where splitting a step pays, by token counts, SMs and ubatches; writes thresholds for serve --config.";
    case Verb::help:
    case Verb::version: break;
  }
  return "";
}

}  // namespace

std::string general_help() {
  return "hocket: inference for mixture-of-experts models with dual-batch overlap\n\n"
         "Usage: hocket COMMAND [MODEL] [OPTIONS]\n\n"
         "Commands\n"
         "  serve             an OpenAI-compatible server\n"
         "  generate          text completion on the command line\n"
         "  eval              few-shot exact match on a file of problems\n"
         "  bench throughput  tokens a second, without HTTP\n"
         "  trace             what a trace written with --trace says about overlap\n"
         "  simulate          a benchmark on virtual hardware: throughput, overlap, advice\n"
         "  tune              thresholds for a model on virtual hardware\n\n"
         "MODEL is a Hugging Face model folder; without it, the bundled tiny-moe-fp8.\n"
         "`hocket COMMAND --help` lists a command's options; `hocket --version` prints the version.\n";
}

std::string command_help(Verb verb, std::string_view words) {
  std::string text = fmt::format(
      "Usage: hocket {} {} [OPTIONS]\n\n{}\n\n"
      "Every option is also an environment variable (--max-num-seqs: HOCKET_MAX_NUM_SEQS) and a key of --config FILE.yaml.\n"
      "The command line wins over the environment, the environment over the file. Integers take k, m, g (powers of 1000)\n"
      "and K, M, G (powers of 1024). Defaults stand in brackets.\n",
      words, verb == Verb::trace ? "FILE" : "[MODEL]", purpose(verb));
  for (auto group = Group::model; group <= Group::general; group = static_cast<Group>(static_cast<int>(group) + 1)) {
    std::string lines;
    for (std::span<const Flag> flags : {command_flags(), engine_flags()}) {
      for (const Flag& flag : flags) {
        if (flag.group == group && (flag.verbs & verb_bit(verb)) != 0) lines += line(flag);
      }
    }
    if (!lines.empty()) text += fmt::format("\n{}\n{}", title(group), lines);
  }
  return text + fmt::format("{:<{}}this text\n", "  -h, --help", kColumn);
}

}  // namespace hocket::cli
