#include "text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/utf8.h"

namespace hocket::text {

namespace {

/// Lead bytes of U+0300 and above. NFC changes no character below, alone or beside another one
/// below.
bool may_change(char byte) { return static_cast<unsigned char>(byte) >= 0xCC; }
bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

int combining_class(char32_t c) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

/// Canonical decomposition and ordering. utf8proc would order marks by insertion, which a long run
/// makes quadratic.
std::vector<utf8proc_int32_t> nfd(std::string_view text) {
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size());
  std::array<utf8proc_int32_t, 8> buffer{};
  while (!text.empty()) {
    const Utf8Part part = utf8_part(text);
    text.remove_prefix(part.length);
    int last_boundclass = 0;
    const auto length = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(part.code_point), buffer.data(),
        static_cast<utf8proc_ssize_t>(buffer.size()), UTF8PROC_DECOMPOSE, &last_boundclass);
    if (length < 0 || static_cast<size_t>(length) > buffer.size()) {
      throw Error(Code::internal, "utf8proc: a character decomposes into more than 8");
    }
    out.insert(out.end(), buffer.begin(), buffer.begin() + length);
  }
  const auto is_starter = [](utf8proc_int32_t c) {
    return combining_class(static_cast<char32_t>(c)) == 0;
  };
  for (auto run = out.begin(); run != out.end();) {
    run = std::find_if_not(run, out.end(), is_starter);
    const auto end = std::find_if(run, out.end(), is_starter);
    std::stable_sort(run, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(static_cast<char32_t>(a)) < combining_class(static_cast<char32_t>(b));
    });
    run = end;
  }
  return out;
}

void compose(std::vector<utf8proc_int32_t> points, std::string& out) {
  const auto length =
      utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (length < 0) throw Error(Code::internal, utf8proc_errmsg(length));
  points.resize(static_cast<size_t>(length));
  for (const utf8proc_int32_t point : points) append_utf8(static_cast<char32_t>(point), out);
}

}  // namespace

// Takes apart only the stretches that may change: most text has few.
std::string nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t done = 0;
  while (true) {
    const auto found =
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(done), text.end(), may_change);
    auto begin = static_cast<size_t>(found - text.begin());
    if (found == text.end()) break;
    // A mark can change the character before it; an ASCII character never joins what is before it.
    if (begin > done) --begin;
    while (begin > done && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const auto end = static_cast<size_t>(std::find_if(found, text.end(), is_ascii) - text.begin());
    out += text.substr(done, begin - done);
    compose(nfd(text.substr(begin, end - begin)), out);
    done = end;
  }
  out += text.substr(done);
  return out;
}

std::string_view Normalizer::apply(std::string_view text, std::string& storage,
                                   MatchState& state) const {
  for (const Step& step : steps_) {
    if (std::holds_alternative<Nfc>(step)) {
      if (std::ranges::none_of(text, may_change)) continue;
      storage = nfc(text);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      if (text.empty()) continue;
      storage = prepend->text + std::string(text);
    } else {
      const auto& replace = std::get<Replace>(step);
      storage = replace.pattern.replace_all(text, replace.content, state);
    }
    text = storage;
  }
  return text;
}

}  // namespace hocket::text
