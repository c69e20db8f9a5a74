#include "text/pattern_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/utf8.h"

namespace hocket::text {

namespace {

// Oniguruma's \w: Alphabetic, M, Nd, Pc; outside of classes also the superscripts and fractions of
// Latin-1. PCRE2's own leaves marks out.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kLatin1Numbers = R"(\xB2\xB3\xB9\xBC-\xBE)";

class Rewriter {
 public:
  explicit Rewriter(std::string_view source) : in_(source) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_member(c);
      } else if (c == '[') {
        open_class();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(Code::bad_input,
                fmt::format("{} at byte {} of the pattern is not supported", what, at_));
  }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void copy(size_t bytes) {
    out_ += in_.substr(at_, bytes);
    at_ = std::min(at_ + bytes, in_.size());
  }
  void replace(size_t bytes, std::string_view with) {
    out_ += with;
    at_ += bytes;
  }

  void escape() {
    if (at_ + 1 == in_.size()) refuse("a backslash without a character");
    const char c = in_[at_ + 1];
    switch (c) {
      case 's':
        return replace(2, R"(\p{White_Space})");
      case 'S':
        return replace(2, R"(\P{White_Space})");
      case 'v':
        return replace(2, R"(\x0B)");  // to PCRE2 \v is every vertical space
      case 'w':
        return replace(
            2, in_class_ ? std::string(kWord) : fmt::format("[{}{}]", kWord, kLatin1Numbers));
      case 'W':
        if (in_class_) refuse(R"(\W in a class)");
        return replace(2, fmt::format("[^{}{}]", kWord, kLatin1Numbers));
      case 'u':
        return code_unit();
      case 'x':
        return copy(next_is(R"(\x{)") ? std::min(in_.find('}', at_), in_.size() - 1) + 1 - at_ : 2);
      case 'p':
      case 'P':
        return property();
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter && std::string_view("dDnrtfae").find(c) == std::string_view::npos) {
      refuse(fmt::format("\\{}", c));
    }
    copy(2);  // a punctuation mark, or the first byte of a character
  }

  /// \uHHHH, which PCRE2 writes \x{HHHH}.
  void code_unit() {
    const std::string_view digits = in_.substr(at_ + 2, 4);
    const bool hex = digits.size() == 4 &&
                     digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
    if (!hex) refuse(R"(\u without four hexadecimal digits)");
    replace(6, fmt::format("\\x{{{}}}", digits));
  }

  /// General categories are the same; a script must say that it is one, or PCRE2 takes its
  /// extensions too.
  void property() {
    const size_t end = in_.find('}', at_);
    if (in_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos)
      refuse(R"(\p without {...})");
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    constexpr std::array<std::string_view, 4> kBinary = {"Alphabetic", "White_Space", "Uppercase",
                                                         "Lowercase"};
    const bool script = name.size() > 2 && std::ranges::find(kBinary, name) == kBinary.end();
    replace(end + 1 - at_, fmt::format("\\{}{{{}{}{}}}", in_[at_ + 1], negated ? "^" : "",
                                       script ? "sc:" : "", name));
  }

  void open_class() {
    copy(next_is("[^") ? 2 : 1);
    if (next_is("]")) refuse("a class that begins with ]");
    in_class_ = true;
  }
  void class_member(char c) {
    if (c == '[') refuse("a class inside a class");
    if (next_is("&&")) refuse("an intersection of classes");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void group() {
    if (!next_is("(?")) return copy(1);
    for (const std::string_view opening :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"}) {
      if (next_is(opening)) return copy(opening.size());
    }
    refuse(fmt::format("the group {}...", in_.substr(at_, 3)));
  }

  /// {n}, {n,} and {n,m}; Ruby's {,m}, {n}? and {n,m}+ mean other things in PCRE2.
  void interval() {
    const size_t end = in_.find('}', at_);
    const std::string_view bounds =
        end == std::string_view::npos ? "" : in_.substr(at_ + 1, end - at_ - 1);
    if (bounds.empty() || bounds.find_first_not_of("0123456789,") != std::string_view::npos)
      return copy(1);
    if (bounds.starts_with(',')) refuse("an interval without a lower bound");
    const std::string_view after = in_.substr(end + 1, 1);
    if (after == "+") refuse("a possessive interval");
    if (after == "?" && bounds.find(',') == std::string_view::npos)
      refuse("a lazy interval of fixed length");
    copy(end + 1 - at_);
  }

  std::string_view in_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view source) { return Rewriter(source).run(); }

}  // namespace hocket::text
