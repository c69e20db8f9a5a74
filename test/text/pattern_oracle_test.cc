// The rewriting of patterns against Oniguruma itself, which is what the reference tokenizers use.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "oniguruma_oracle.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace hocket::text {
namespace {

using Spans = OnigurumaOracle::Spans;

Spans matches(const Pattern& pattern, const std::string& text, MatchState& state) {
  std::vector<Part> parts;
  pattern.split(text, state, parts);
  Spans out;
  for (const Part& part : parts) {
    if (part.is_match) out.emplace_back(part.begin, part.end);
  }
  return out;
}

const std::vector<std::string>& known_patterns() {
  static const std::vector<std::string> patterns = {
      // Qwen 2 and 3
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      // GPT-2
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      // o200k (gpt-oss)
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
      R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      // DeepSeek-V3, one of three
      R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
      R"(\s*[\r\n]+|\s+(?!\S)|\s+)"};
  return patterns;
}

/// A character with itself, a letter, a space, a quote, a digit and a line end as neighbours.
std::string among_others(const std::string& c) { return "a" + c + c + " '" + c + "1 " + c + "\n"; }
std::string in_line(const std::string& c) { return c + "a\n"; }

/// Compares over every code point, many of them in one text.
void compare_on_all_code_points(const std::string& source,
                                std::string (*context)(const std::string&)) {
  constexpr char32_t kBlock = 64;
  OnigurumaOracle oracle(source);
  const Pattern pattern = Pattern::regex(source);
  MatchState state;
  int differences = 0;
  for (char32_t first = 0; first <= 0x10FFFF && differences < 5; first += kBlock) {
    if (first >= 0xD800 && first < 0xE000) continue;
    std::string text;
    for (char32_t c = first; c < first + kBlock; ++c) {
      std::string character;
      append_utf8(c, character);
      text += context(character);
    }
    const Spans ours = matches(pattern, text, state);
    const Spans theirs = oracle.matches(text);
    if (ours == theirs) continue;
    const auto [at, other] = std::ranges::mismatch(ours, theirs);
    const size_t where = std::min(at == ours.end() ? text.size() : at->first,
                                  other == theirs.end() ? text.size() : other->first);
    ADD_FAILURE() << source << " in the block of U+" << std::hex << static_cast<uint32_t>(first)
                  << " near \"" << text.substr(where, 20) << "\"";
    ++differences;
  }
}

TEST(PatternOracle, KnownPatternsAgreeOnEveryCodePoint) {
  for (const std::string& source : known_patterns())
    compare_on_all_code_points(source, among_others);
}

TEST(PatternOracle, ClassesAgreeOnEveryCodePoint) {
  for (const char* source :
       {R"(\s+)", R"(\S+)", R"([^\S]+)", R"([\s\p{L}]+)", R"(\w+)", R"(\W+)", R"([\w']+)", R"(\d+)",
        R"([^\d\s]+)", R"(\p{Han}+)", R"(\p{^L}+)", R"(\P{Greek}+)", R"(.+)", R"(\v)", R"(^\s|\s$)",
        R"((?i:k|s|'ll|ß)+)", R"(\u3042|\x{3044})"}) {
    compare_on_all_code_points(source, in_line);
  }
}

TEST(PatternOracle, KnownPatternsAgreeOnRandomText) {
  const unsigned seed = 31337;
  std::mt19937 random(seed);
  const std::vector<std::string> units = {
      "a",      "B",      "ß",      "7", "½", " ",  "  ", "\n",     "\r\n",
      "\t",     "'s",     "'LL",    ".", "/", "日", "ー", "\u0301", "🙂",
      "\u180e", "\u200b", "\u00a0", "ǅ", "ʰ", "_",  "٣"};
  MatchState state;
  for (const std::string& source : known_patterns()) {
    OnigurumaOracle oracle(source);
    const Pattern pattern = Pattern::regex(source);
    for (int i = 0; i < 5000; ++i) {
      std::string text;
      for (size_t j = random() % 20; j > 0; --j) text += units[random() % units.size()];
      ASSERT_EQ(matches(pattern, text, state), oracle.matches(text))
          << source << " on \"" << text << "\", seed " << seed << " round " << i;
    }
  }
}

// Without the rewriting U+180E would be a space: this shows that the comparison can fail.
TEST(PatternOracle, PlainPcre2WouldDiffer) {
  OnigurumaOracle oracle(R"(\s)");
  MatchState state;
  const std::string separator = "\u180e";
  EXPECT_TRUE(oracle.matches(separator).empty());
  EXPECT_TRUE(matches(Pattern::regex(R"(\s)"), separator, state).empty());
  EXPECT_EQ(matches(Pattern::pcre2(R"(\s)"), separator, state).size(), 1u);
}

}  // namespace
}  // namespace hocket::text
