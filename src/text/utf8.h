// Well-formed UTF-8, one character at a time. Source: Unicode 15, table 3-7 and section 3.9,
// "U+FFFD substitution of maximal subparts".
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hocket::text {

struct Utf8Part {
  enum class Kind : uint8_t { character, ill_formed, incomplete };
  Kind kind;
  size_t
      length;  ///< bytes: of the character, of the maximal ill-formed part, or of all that is there
  char32_t code_point;  ///< of a character; U+FFFD otherwise
};
/// The first part of `bytes`. `incomplete` means that more bytes could still make it a character.
/// REQUIRES: bytes is not empty.
Utf8Part utf8_part(std::string_view bytes);

/// Offset of the first byte that is not part of a character; npos if there is none.
size_t first_ill_formed(std::string_view bytes);

void append_utf8(char32_t code_point, std::string& out);

/// Unicode property White_Space. Stable since Unicode 6.3.
bool is_white_space(char32_t code_point);

}  // namespace hocket::text
