#include "cli/options_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace hocket::cli {
namespace {

int64_t factor_of(char suffix) {
  switch (suffix) {
    case 'k': return 1'000;
    case 'm': return 1'000'000;
    case 'g': return 1'000'000'000;
    case 'K': return int64_t{1} << 10;
    case 'M': return int64_t{1} << 20;
    case 'G': return int64_t{1} << 30;
    default: return 1;
  }
}

}  // namespace

std::optional<bool> parse_boolean(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (lower == no) return false;
  }
  return std::nullopt;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const int64_t factor = factor_of(text.back());
  const std::string_view digits = factor == 1 ? text : text.substr(0, text.size() - 1);
  int64_t whole = 0;
  const char* const end = digits.data() + digits.size();
  if (const auto [stop, error] = std::from_chars(digits.data(), end, whole); error == std::errc() && stop == end) {
    int64_t result = 0;
    return __builtin_mul_overflow(whole, factor, &result) ? std::nullopt : std::optional(result);
  }
  if (factor == 1) return std::nullopt;
  const std::optional<double> real = parse_real(digits);
  if (!real) return std::nullopt;
  // 25.6k is an integer although 25.6 has no exact double: round, then ask whether the rest is noise
  const double scaled = *real * static_cast<double>(factor);
  const double rounded = std::round(scaled);
  if (std::abs(scaled - rounded) > 1e-6 || std::abs(rounded) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(rounded);
}

std::optional<double> parse_real(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> integer_in(std::string_view text, IntegerRange range, std::string& problem) {
  const std::optional<int64_t> value = parse_integer(text);
  if (value && *value >= range.low && *value <= range.high) return value;
  const IntegerRange any;
  if (range.low == any.low && range.high == any.high) {
    problem = "expected an integer.";
  } else if (range.high == any.high) {
    problem = fmt::format("expected an integer of {} or more.", range.low);
  } else {
    problem = fmt::format("expected an integer from {} to {}.", range.low, range.high);
  }
  return std::nullopt;
}

std::optional<double> real_in(std::string_view text, double low, double high, std::string& problem) {
  const std::optional<double> value = parse_real(text);
  if (value && *value >= low && *value <= high) return value;
  problem = fmt::format("expected a number from {} to {}.", low, high);
  return std::nullopt;
}

std::string expected_one_of(const std::vector<std::string_view>& names) {
  std::string text = "expected ";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text + ".";
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::optional<std::string_view> nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (word.size() > 128) return std::nullopt;  // no slip of the hand, and the table is quadratic
  std::optional<std::string_view> best;
  size_t least = std::max<size_t>(2, word.size() / 4) + 1;
  for (std::string_view candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < least && distance < word.size()) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace hocket::cli
