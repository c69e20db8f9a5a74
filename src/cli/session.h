// From a model folder to a running engine, as every command does it.
#pragma once
#include <filesystem>
#include <memory>

#include "engine/engine.h"

namespace hocket::cli {

/// Everything a command needs; members are destroyed in reverse order.
struct Session {
  telemetry::Metrics metrics;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::filesystem::path trace;  ///< empty: none
  std::unique_ptr<device::Recorder> recorder;  ///< with a trace
  std::unique_ptr<engine::Engine> engine;
};

/// The bundled model beside the binary (build tree or installation). Fails (missing) naming the places looked at.
Expected<std::filesystem::path> bundled_model();

enum class Report : uint8_t { quiet, table };
/// Loads the tokenizer and the engine, with progress and the start-up table on standard error.
/// `trace`: where finish() writes one; empty: none. Fails (config) at once if its folder cannot be written to.
Expected<std::unique_ptr<Session>> open_session(engine::Config config, Report report, const std::filesystem::path& trace);
/// The end of every command: stops the engine and writes the trace. Returns `code`, or if that is 0 the code of a trace
/// that could not be written, with a line on standard error.
int finish(Session& session, int code);

/// Fails (internal), naming the file, if it cannot be written whole.
Expected<void> write_file(const std::filesystem::path& path, std::string_view content);

/// 2: configuration, 3: model files, 1: anything else.
int exit_code(Code code);

}  // namespace hocket::cli
