#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace hocket::log {
namespace {

spdlog::level::level_enum native(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
    case Level::off: return spdlog::level::off;
  }
  return spdlog::level::info;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> it = [] {
    auto made = spdlog::stderr_color_mt("hocket");
    made->set_pattern("%H:%M:%S.%e %^%-7l%$ %v");
    return made;
  }();
  return *it;
}

}  // namespace

void set_level(Level level) { logger().set_level(native(level)); }

void write(Level level, std::string_view room, const std::string& text) {
  logger().log(native(level), "({}) {}", room, text);
}

}  // namespace hocket::log
