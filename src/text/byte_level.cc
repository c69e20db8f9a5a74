#include "text/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace hocket::text {

namespace {

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, 512> byte{};  ///< -1 where the character stands for no byte
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int& byte : alphabet.byte) byte = -1;
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t character = printable ? byte : next++;
    alphabet.character[byte] = character;
    alphabet.byte[character] = static_cast<int>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string byte_level_characters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes)
    append_utf8(kAlphabet.character[static_cast<unsigned char>(byte)], out);
  return out;
}

std::optional<std::string> byte_level_bytes(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    const Utf8Part part = utf8_part(utf8);
    if (part.code_point >= kAlphabet.byte.size() || kAlphabet.byte[part.code_point] < 0)
      return std::nullopt;
    out.push_back(static_cast<char>(kAlphabet.byte[part.code_point]));
    utf8.remove_prefix(part.length);
  }
  return out;
}

}  // namespace hocket::text
