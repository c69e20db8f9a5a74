#include <cstdio>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/offline.h"

namespace hocket::cli {
namespace {

Expected<std::vector<std::string>> texts(const GenerateOptions& options) {
  std::vector<std::string> all = options.prompts;
  if (!options.prompt_file.empty()) {
    std::ifstream file(options.prompt_file, std::ios::binary);
    if (!file) return fail(Code::missing, fmt::format("{}: cannot be read.", options.prompt_file.string()));
    std::ostringstream content;
    content << file.rdbuf();
    all.push_back(content.str());
  }
  if (all.empty()) return fail(Code::config, "configuration error: generate needs --prompt TEXT or --prompt-file FILE.");
  return all;
}

void print(const Completion& completion, const std::vector<int32_t>& prompt, Output output) {
  if (output == Output::text) {
    fmt::print("{}\n", completion.text);
    return;
  }
  const nlohmann::ordered_json object = {{"prompt_token_ids", prompt},
                                         {"token_ids", completion.ids},
                                         {"text", completion.text},
                                         {"logprobs", completion.logprobs},
                                         {"finish_reason", std::string(engine::name(completion.finish))}};
  fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

int generate(const Options& options) {
  auto prompts = texts(options.generate);
  if (!prompts) return report(prompts.error());
  auto config = resolve(options.engine);
  if (!config) return report(config.error());
  auto session = open_session(std::move(*config), Report::table, options.engine.trace);
  if (!session) return report(session.error());
  std::vector<Prompt> requests;
  for (const std::string& text : *prompts) {
    auto ids = (*session)->tokenizer->encode(text);
    if (!ids) return report(ids.error());
    requests.push_back({std::move(*ids), options.generate.sampling});
    requests.back().sampling.logprobs = options.generate.output == Output::json ? 0 : -1;
  }
  auto completions = complete(*(*session)->engine, requests);
  if (!completions) return finish(**session, report(completions.error()));
  for (size_t i = 0; i < requests.size(); ++i) print((*completions)[i], requests[i].ids, options.generate.output);
  return finish(**session, 0);
}

}  // namespace hocket::cli
