#include "text/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/pattern_syntax.h"

namespace hocket::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::string& source) {
  try {
    const Pattern pattern = Pattern::regex(source);
    return "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::bad_input);
    return error.what();
  }
}

/// Matches in brackets: "a[bc]d".
std::string show(const Pattern& pattern, std::string_view text) {
  MatchState state;
  std::vector<Part> parts;
  pattern.split(text, state, parts);
  std::string out;
  for (const Part& part : parts) {
    const std::string stretch(text.substr(part.begin, part.end - part.begin));
    out += part.is_match ? "[" + stretch + "]" : stretch;
  }
  return out;
}

TEST(PatternSyntax, RewritesSpaceInAndOutsideClasses) {
  EXPECT_EQ(to_pcre2(R"(\s+(?!\S))"), R"(\p{White_Space}+(?!\P{White_Space}))");
  EXPECT_EQ(to_pcre2(R"([^\s\p{L}]\\s)"), R"([^\p{White_Space}\p{L}]\\s)");
  EXPECT_EQ(to_pcre2(R"(\\\s[\\s])"), R"(\\\p{White_Space}[\\s])");
  EXPECT_EQ(to_pcre2(R"([\]\s])"), R"([\]\p{White_Space}])");
}

TEST(PatternSyntax, RewritesWhatPcre2ReadsOtherwise) {
  EXPECT_EQ(to_pcre2(R"(\p{Han}\P{^Greek}\p{Lu})"), R"(\p{sc:Han}\P{^sc:Greek}\p{Lu})");
  EXPECT_EQ(to_pcre2(R"(\u3042\v)"), R"(\x{3042}\x0B)");
  EXPECT_EQ(to_pcre2(R"(\x{41}+)"), R"(\x{41}+)");
}

TEST(PatternSyntax, RefusesWhatWouldMeanSomethingElse) {
  for (const char* source : {R"(a\b)",    R"(\h)",      R"(\R)",      R"(\X)",          R"(\G)",
                             R"(\K)",     R"(\A)",      R"(\z)",      R"((a)\1)",       R"(\Qa\E)",
                             R"([a[b]])", R"([a&&b])",  R"([]a])",    R"([[:alpha:]])", R"([\W])",
                             R"((?m)a)",  R"((?i)a)",   R"((?<n>a))", R"((?#x))",       R"(a{,3})",
                             R"(a{2}?)",  R"(a{1,3}+)", R"(\pL)",     R"(\u12)",        "a\\"}) {
    EXPECT_THAT(error_of(source), HasSubstr("of the pattern is not supported")) << source;
  }
  for (const char* source : {"(a", "[a", "a**b)", R"(\p{Nonsense})", R"(\x{110000})", R"(\x{41)"}) {
    EXPECT_THAT(error_of(source), HasSubstr("the pattern does not compile")) << source;
  }
  EXPECT_THAT(error_of(std::string(100'000, 'a')), HasSubstr("100000 bytes"));
}

TEST(Pattern, SplitsAtMatches) {
  EXPECT_EQ(show(Pattern::literal("-"), "a-b--"), "a[-]b[-][-]");
  EXPECT_EQ(show(Pattern::regex("b+"), "abbcb"), "a[bb]c[b]");
  EXPECT_EQ(show(Pattern::regex("b"), ""), "");
  EXPECT_EQ(show(Pattern::regex("x"), "日本"), "日本");
  EXPECT_EQ(show(Pattern::regex("^b|c$"), "b\nb\nac\nc"), "[b]\n[b]\na[c]\n[c]");
}

TEST(Pattern, FindsEmptyMatchesAsOnigurumaDoes) {
  EXPECT_EQ(show(Pattern::regex("b*"), "aébb"), "[]a[]é[bb]");
  EXPECT_EQ(show(Pattern::regex("(?=b)"), "abab"), "a[]ba[]b");
}

TEST(Pattern, ReplacesWithContentAsItStands) {
  MatchState state;
  EXPECT_EQ(Pattern::regex(R"(\s+)").replace_all(" a \n b", "$0", state), "$0a$0b");
  EXPECT_EQ(Pattern::literal("aa").replace_all("aaaaa", "b", state), "bba");
}

// Each of these needs exponential or deep search without limits.
TEST(Pattern, GivesUpOnRunawayPatterns) {
  MatchState state;
  std::vector<Part> parts;
  const std::string text = std::string(5000, 'a') + "!";
  for (const char* source : {"(?:a*)*b", "(?:a|aa)+b", "(?:(?:a+)+)+b", "(?:a|b|ab)*c"}) {
    const Pattern pattern = Pattern::regex(source);
    try {
      pattern.split(text, state, parts);
      EXPECT_THAT(parts, ElementsAre(::testing::Field(&Part::is_match, false))) << source;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input);
      EXPECT_THAT(error.what(), HasSubstr("a pattern gave up on the text after byte 0")) << source;
    }
  }
}

TEST(Pattern, MatchesDeepGroupsOnAGrownStack) {
  MatchState state;
  std::vector<Part> parts;
  const std::string text(100'000, 'a');
  Pattern::regex("(?:a|b(?=c))+").split(text, state, parts);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_TRUE(parts[0].is_match);
}

}  // namespace
}  // namespace hocket::text
