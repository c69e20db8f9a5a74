#include "cli/score.h"

#include <algorithm>
#include <regex>

namespace hocket::cli {
namespace {

std::string normalize(std::string_view text) {
  if (const size_t mark = text.rfind("#### "); mark != std::string_view::npos) text.remove_prefix(mark + 5);
  std::string out;
  for (char c : text) {
    if (c == ',' || c == '$') continue;
    out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (!out.empty() && out.back() == '.') out.pop_back();
  return out;
}

}  // namespace

std::string strict_answer(const std::string& completion) {
  const std::regex pattern(R"(#### (\-?[0-9\.\,]+))");
  std::smatch match;
  return std::regex_search(completion, match, pattern) ? match[1].str() : "[invalid]";
}

std::string flexible_answer(const std::string& completion) {
  const std::regex pattern(R"((-?[$0-9.,]{2,})|(-?[0-9]+))");
  std::string last = "[invalid]";
  for (auto it = std::sregex_iterator(completion.begin(), completion.end(), pattern); it != std::sregex_iterator(); ++it) {
    last = it->str();
  }
  return last;
}

bool exact_match(std::string_view answer, std::string_view reference) { return normalize(answer) == normalize(reference); }

}  // namespace hocket::cli
