#include "cli/session.h"

#include <fmt/format.h>

#include "cli/progress.h"

namespace hocket::cli {

namespace fs = std::filesystem;

Expected<fs::path> bundled_model() {
  std::error_code ignored;
  const fs::path binary = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::string looked;
  for (const char* relative : {"../../models/tiny-moe-fp8", "../share/hocket/models/tiny-moe-fp8"}) {
    const fs::path candidate = (binary / relative).lexically_normal();
    if (fs::exists(candidate / "config.json", ignored)) return candidate;
    looked += fmt::format("{}{}", looked.empty() ? "" : ", ", candidate.string());
  }
  return fail(Code::missing, fmt::format("the bundled model is not at {}. Name a model folder.", looked));
}

int exit_code(Code code) {
  switch (code) {
    case Code::ok: return 0;
    case Code::config: return 2;
    case Code::missing:
    case Code::bad_input: return 3;
    case Code::capacity: return 4;
    case Code::peer_lost: return 5;
    default: return 1;
  }
}

Expected<std::unique_ptr<Session>> open_session(engine::Config config, Report report) {
  std::error_code ignored;
  if (!fs::is_directory(config.model, ignored)) {
    return fail(Code::missing, fmt::format("{} is not a folder. Name a Hugging Face model folder with config.json.",
                                           config.model.string()));
  }
  auto session = std::make_unique<Session>();
  auto tokenizer = text::Tokenizer::load(config.model / "tokenizer.json");
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  session->tokenizer = std::make_unique<text::Tokenizer>(std::move(*tokenizer));

  LoadProgress progress(config.model.filename().string(), config.expert_parallel ? config.data_parallel : 1);
  if (report == Report::table) {
    config.load_progress = [&progress](int rank, int64_t done, int64_t total) { progress.update(rank, done, total); };
  }
  auto engine = engine::Engine::start(std::move(config), *session->tokenizer, session->metrics);
  if (!engine) return tl::unexpected(engine.error());
  session->engine = std::move(*engine);
  if (report == Report::table) {
    for (const auto& [label, value] : session->engine->summary().table()) fmt::print(stderr, " {:<12} {}\n", label, value);
  }
  return session;
}

}  // namespace hocket::cli
