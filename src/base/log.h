// Log lines on standard error: room, event, fields. Nothing per token or per layer.
#pragma once
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace hocket::log {

enum class Level { debug, info, warning, error, off };
/// Process-wide by nature: spdlog's default logger. Called once, before threads start.
void set_level(Level level);
void write(Level level, std::string_view room, const std::string& text);

template <class... Args>
void debug(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, room, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, room, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, room, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(std::string_view room, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, room, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hocket::log
