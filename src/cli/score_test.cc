#include "cli/score.h"

#include <gtest/gtest.h>

#include "cli/digest.h"

namespace hocket::cli {
namespace {

TEST(Score, StrictTakesTheFirstMarkedNumber) {
  EXPECT_EQ(strict_answer("so 12.\n#### 1,234.5\n#### 7"), "1,234.5");
  EXPECT_EQ(strict_answer("#### -3"), "-3");
  EXPECT_EQ(strict_answer("#### none"), "[invalid]");
  EXPECT_EQ(strict_answer("#####5"), "[invalid]");
}

TEST(Score, FlexibleTakesTheLastNumber) {
  EXPECT_EQ(flexible_answer("from 3 to $1,200."), "$1,200.");
  EXPECT_EQ(flexible_answer("it is -7"), "-7");
  EXPECT_EQ(flexible_answer("no number"), "[invalid]");
}

TEST(Score, ExactMatchIgnoresWhatLmEvalIgnores) {
  EXPECT_TRUE(exact_match("1,200.", "She has 1200.\n#### 1200"));
  EXPECT_TRUE(exact_match("$5", "#### 5"));
  EXPECT_TRUE(exact_match("ABC", "abc"));
  EXPECT_FALSE(exact_match("12", "#### 120"));
  EXPECT_FALSE(exact_match("[invalid]", "#### 1"));
}

// printf '1 2\n3\n' | sha256sum
TEST(Digest, CoversIdsInOrder) {
  std::vector<Completion> completions(2);
  completions[0].ids = {1, 2};
  completions[1].ids = {3};
  const std::string digest = ids_digest(completions);
  EXPECT_EQ(digest, "0b7c61ec062aaab1e08e56c71f88ee85be1751d0131a5b9c6dce067ba1791b11");
  std::swap(completions[0], completions[1]);
  EXPECT_NE(ids_digest(completions), digest);
}

}  // namespace
}  // namespace hocket::cli
