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
  std::unique_ptr<engine::Engine> engine;
};

/// The bundled model beside the binary (build tree or installation). Fails (missing) naming the places looked at.
Expected<std::filesystem::path> bundled_model();

enum class Report : uint8_t { quiet, table };
/// Loads the tokenizer and the engine, with progress and the start-up table on standard error.
Expected<std::unique_ptr<Session>> open_session(engine::Config config, Report report);

/// 2: configuration, 3: model files, 1: anything else.
int exit_code(Code code);

}  // namespace hocket::cli
