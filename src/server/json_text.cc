#include "server/json_text.h"

#include <cmath>

#include <fmt/format.h>

namespace hocket::server {
namespace {

bool plain(unsigned char c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

void append_escaped(std::string& out, unsigned char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
  }
}

}  // namespace

size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte: no overlong forms, no surrogates, nothing above U+10FFFF
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

int64_t count_characters(std::string_view utf8) {
  int64_t count = 0;
  for (char c : utf8) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

void append_json_string(std::string& out, std::string_view utf8) {
  out += '"';
  while (!utf8.empty()) {
    size_t run = 0;
    while (run < utf8.size() && plain(static_cast<unsigned char>(utf8[run]))) ++run;
    if (run == 0) {
      run = utf8_length(utf8);
      if (run <= 1) {
        if (run == 0) out += "\xEF\xBF\xBD";
        if (run == 1) append_escaped(out, static_cast<unsigned char>(utf8[0]));
        utf8.remove_prefix(1);
        continue;
      }
    }
    out += utf8.substr(0, run);
    utf8.remove_prefix(run);
  }
  out += '"';
}

std::string json_string(std::string_view utf8) {
  std::string out;
  append_json_string(out, utf8);
  return out;
}

void append_json_logprob(std::string& out, float value) {
  constexpr float kLowest = -9999.0F;
  if (!std::isfinite(value) || value < kLowest) value = kLowest;
  fmt::format_to(std::back_inserter(out), "{}", value);
}

}  // namespace hocket::server
