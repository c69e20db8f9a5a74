#include "text/utf8.h"

#include <simdjson.h>

namespace hocket::text {

namespace {

/// How a character that begins with some byte goes on; length 0 if no character begins with it.
struct Lead {
  size_t length;
  unsigned char second_low;
  unsigned char second_high;
};

Lead lead(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Part utf8_part(std::string_view bytes) {
  using enum Utf8Part::Kind;
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const Lead first = lead(at(0));
  if (first.length == 1) return {character, 1, at(0)};
  if (first.length == 0) return {ill_formed, 1, 0xFFFD};
  auto code_point = static_cast<char32_t>(at(0) & (0xFFu >> (first.length + 1)));
  for (size_t i = 1; i < first.length; ++i) {
    if (i == bytes.size()) return {incomplete, i, 0xFFFD};
    const unsigned char low = i == 1 ? first.second_low : 0x80;
    const unsigned char high = i == 1 ? first.second_high : 0xBF;
    if (at(i) < low || at(i) > high) return {ill_formed, i, 0xFFFD};
    code_point = code_point << 6 | (at(i) & 0x3Fu);
  }
  return {character, first.length, code_point};
}

size_t first_ill_formed(std::string_view bytes) {
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string_view::npos;
  size_t offset = 0;
  while (offset < bytes.size()) {
    const Utf8Part part = utf8_part(bytes.substr(offset));
    if (part.kind != Utf8Part::Kind::character) return offset;
    offset += part.length;
  }
  return std::string_view::npos;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto push = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto tail = [&](unsigned shift) { push(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
    tail(6);
    tail(0);
  } else {
    push(0xF0 | code_point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace hocket::text
