#include <cmath>
#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/digest.h"
#include "cli/offline.h"
#include "cli/score.h"

namespace hocket::cli {
namespace {

struct Problem {
  std::string question, answer;
};

Expected<std::vector<Problem>> read_problems(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return fail(Code::missing, fmt::format("{}: cannot be read.", path.string()));
  std::vector<Problem> problems;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const auto object = nlohmann::json::parse(line, nullptr, false);
    const auto text = [&](const char* key) {
      return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
    };
    problems.push_back({text("question"), text("answer")});
    if (problems.back().question.empty() || problems.back().answer.empty()) {
      return fail(Code::bad_input, fmt::format("{}:{}: expected an object with the strings \"question\" and \"answer\".",
                                               path.string(), number));
    }
  }
  if (problems.empty()) return fail(Code::bad_input, fmt::format("{}: no problems.", path.string()));
  return problems;
}

Expected<std::string> preamble(const EvalOptions& options) {
  std::string text;
  if (options.num_fewshot == 0) return text;
  auto shots = read_problems(options.fewshot);
  if (!shots) return tl::unexpected(shots.error());
  if (options.num_fewshot > static_cast<int64_t>(shots->size())) {
    return fail(Code::config, fmt::format("configuration error: --num-fewshot {}, but {} holds {}.", options.num_fewshot,
                                          options.fewshot.string(), shots->size()));
  }
  for (int64_t i = 0; i < options.num_fewshot; ++i) {
    const Problem& shot = (*shots)[static_cast<size_t>(i)];
    text += fmt::format("Question: {}\nAnswer: {}\n\n", shot.question, shot.answer);
  }
  return text;
}

struct Score {
  int64_t strict = 0, flexible = 0, n = 0;
};

void print_row(const char* task, const char* filter, int64_t shots, int64_t right, int64_t n) {
  const double mean = static_cast<double>(right) / static_cast<double>(n);
  const double error = n > 1 ? std::sqrt(mean * (1 - mean) / static_cast<double>(n - 1)) : 0;
  fmt::print("|{:<5}|{:>7}|{:<16}|{:>6}|exact_match|↑  |{:.4f}|±  |{:.4f}|\n", task, *task != 0 ? "3" : "", filter, shots, mean,
             error);
}

void print_result(const Score& score, const std::string& digest, const EvalOptions& options) {
  const double n = static_cast<double>(score.n);
  const double strict = static_cast<double>(score.strict) / n;
  const double flexible = static_cast<double>(score.flexible) / n;
  if (options.output == Output::json) {
    const nlohmann::ordered_json object = {
        {"strict", strict}, {"flexible", flexible}, {"n", score.n}, {"token_ids_sha256", digest}};
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print("|Tasks|Version|     Filter     |n-shot|  Metric   |   |Value |   |Stderr|\n");
  fmt::print("|-----|------:|----------------|-----:|-----------|---|-----:|---|-----:|\n");
  print_row("gsm8k", "flexible-extract", options.num_fewshot, score.flexible, score.n);
  print_row("", "strict-match", options.num_fewshot, score.strict, score.n);
  fmt::print("exact_match strict={:.4f} flexible={:.4f} n={} token_ids_sha256={}\n", strict, flexible, score.n, digest);
}

Expected<std::vector<Prompt>> prompts_of(const std::vector<Problem>& problems, const EvalOptions& options,
                                         const text::Tokenizer& tokenizer) {
  auto head = preamble(options);
  if (!head) return tl::unexpected(head.error());
  std::vector<Prompt> prompts;
  for (const Problem& problem : problems) {
    auto ids = tokenizer.encode(fmt::format("{}Question: {}\nAnswer:", *head, problem.question));
    if (!ids) return tl::unexpected(ids.error());
    prompts.push_back({std::move(*ids),
                       {.temperature = 0, .max_tokens = options.max_tokens, .stop = {"Question:", "</s>", "<|im_end|>"}}});
  }
  return prompts;
}

}  // namespace

int evaluate(const Options& options) {
  auto problems = read_problems(options.eval.problems);
  if (!problems) return report(problems.error());
  if (options.eval.limit) problems->resize(std::min(problems->size(), static_cast<size_t>(*options.eval.limit)));
  auto config = resolve(options.engine);
  if (!config) return report(config.error());
  auto session = open_session(std::move(*config), Report::table, options.engine.trace);
  if (!session) return report(session.error());
  auto prompts = prompts_of(*problems, options.eval, *(*session)->tokenizer);
  if (!prompts) return report(prompts.error());
  auto completions = complete(*(*session)->engine, std::move(*prompts));
  if (!completions) return finish(**session, report(completions.error()));
  Score score;
  for (size_t i = 0; i < problems->size(); ++i) {
    const std::string& answer = (*problems)[i].answer;
    score.strict += exact_match(strict_answer((*completions)[i].text), answer) ? 1 : 0;
    score.flexible += exact_match(flexible_answer((*completions)[i].text), answer) ? 1 : 0;
    ++score.n;
  }
  print_result(score, ids_digest(*completions), options.eval);
  return finish(**session, 0);
}

}  // namespace hocket::cli
