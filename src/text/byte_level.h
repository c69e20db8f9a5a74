// GPT-2's bijection between the 256 byte values and printable characters.
// Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hocket::text {

/// The characters that stand for `bytes`, as UTF-8.
std::string byte_level_characters(std::string_view bytes);
/// The bytes that the characters of `utf8` stand for; nothing if one of them stands for no byte.
/// REQUIRES: utf8 is well-formed.
std::optional<std::string> byte_level_bytes(std::string_view utf8);

}  // namespace hocket::text
