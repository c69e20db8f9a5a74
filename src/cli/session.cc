#include "cli/session.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

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

Expected<void> check_trace(const fs::path& trace) {
  if (trace.empty()) return {};
  const fs::path folder = trace.has_parent_path() ? trace.parent_path() : fs::path(".");
  std::error_code ignored;
  std::string why;
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    why = std::strerror(errno);
  } else if (fs::is_directory(trace, ignored)) {
    why = "a folder";
  } else {
    return {};
  }
  return fail(Code::config, fmt::format("configuration error: --trace {}: {}. Name a file in a folder that is writable.",
                                        trace.string(), why));
}

Expected<void> write_file(const fs::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) return fail(Code::internal, fmt::format("{}: cannot be written.", path.string()));
  return {};
}

int finish(Session& session, int code) {
  if (session.recorder == nullptr) return code;
  session.engine.reset();  // the lanes' writers end
  if (const int64_t dropped = session.recorder->dropped(); dropped > 0) {
    fmt::print(stderr, "{}: the trace lacks its oldest {} spans.\n", session.trace.string(), dropped);
  }
  const auto saved = telemetry::save_trace(session.trace, session.recorder->spans());
  if (saved) return code;
  fmt::print(stderr, "{}\n", saved.error().message);
  return code != 0 ? code : exit_code(saved.error().code);
}

Expected<std::unique_ptr<Session>> open_session(engine::Config config, Report report, const fs::path& trace) {
  if (auto writable = check_trace(trace); !writable) return tl::unexpected(writable.error());
  std::error_code ignored;
  if (!fs::is_directory(config.model, ignored)) {
    return fail(Code::missing, fmt::format("{} is not a folder. Name a Hugging Face model folder with config.json.",
                                           config.model.string()));
  }
  auto session = std::make_unique<Session>();
  session->trace = trace;
  if (!trace.empty()) {
    session->recorder = std::make_unique<device::Recorder>();
    config.recorder = session->recorder.get();
  }
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
