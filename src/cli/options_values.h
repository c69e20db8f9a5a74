// Text to numbers and choices, with one wording for what was expected.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hocket::cli {

/// 1/0, true/false, yes/no, on/off in any case.
std::optional<bool> parse_boolean(std::string_view text);
/// Decimal, optionally with k, m, g (powers of 1000) or K, M, G (powers of 1024); "1.5k" is 1500. No value if the result
/// is not an integer or does not fit.
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

struct IntegerRange {
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
};
/// The value, or in `problem` what was expected.
std::optional<int64_t> integer_in(std::string_view text, IntegerRange range, std::string& problem);
std::optional<double> real_in(std::string_view text, double low, double high, std::string& problem);
/// "expected A, B or C."
std::string expected_one_of(const std::vector<std::string_view>& names);

/// Damerau-Levenshtein distance (adjacent transpositions count one). Source: Damerau 1964.
size_t edit_distance(std::string_view a, std::string_view b);
/// The candidate nearest to `word`, if it is near enough to be a slip of the hand.
std::optional<std::string_view> nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace hocket::cli
