// From the pattern language of tokenizer.json (Oniguruma, Ruby syntax) to PCRE2's.
#pragma once
#include <string>
#include <string_view>

namespace hocket::text {

/// The PCRE2 pattern that matches what Oniguruma matches with `source`. REQUIRES: source is
/// well-formed UTF-8. Throws Error (bad_input) for constructs that mean something else in PCRE2 or
/// that PCRE2 lacks.
std::string to_pcre2(std::string_view source);

}  // namespace hocket::text
