#include "cli/options_values.h"

#include <gtest/gtest.h>

namespace hocket::cli {
namespace {

TEST(ParseInteger, TakesDecimalAndBinarySuffixes) {
  EXPECT_EQ(parse_integer("32k"), 32'000);
  EXPECT_EQ(parse_integer("32K"), 32'768);
  EXPECT_EQ(parse_integer("2m"), 2'000'000);
  EXPECT_EQ(parse_integer("1G"), 1'073'741'824);
  EXPECT_EQ(parse_integer("25.6k"), 25'600);
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("9223372036854775807"), 9'223'372'036'854'775'807);
}

TEST(ParseInteger, RefusesWhatIsNone) {
  for (const char* text : {"", "k", "1.5", "1e3", "0x10", " 1", "1 ", "+1", "9223372036854775808", "9223372036854775807k",
                           "1.23456k", "1kk", "nank", "1e300k"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(ParseBoolean, TakesFourPairsInAnyCase) {
  for (const char* text : {"1", "true", "YES", "On"}) EXPECT_EQ(parse_boolean(text), true) << text;
  for (const char* text : {"0", "False", "no", "OFF"}) EXPECT_EQ(parse_boolean(text), false) << text;
  for (const char* text : {"", "2", "t", "truee"}) EXPECT_EQ(parse_boolean(text), std::nullopt) << text;
}

TEST(ParseReal, IsFinite) {
  EXPECT_EQ(parse_real("0.25"), 0.25);
  for (const char* text : {"", "nan", "inf", "1e999", "1,5", "1x"}) EXPECT_EQ(parse_real(text), std::nullopt) << text;
}

TEST(EditDistance, CountsTranspositionsOnce) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("serve", "sreve"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("same", "same"), 0U);
}

TEST(Nearest, IsSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest("enable-dbp", {"enable-dbo", "port"}), "enable-dbo");
  EXPECT_EQ(nearest("zzz", {"enable-dbo", "port"}), std::nullopt);
  EXPECT_EQ(nearest(std::string(100'000, 'a'), {"port"}), std::nullopt);
}

}  // namespace
}  // namespace hocket::cli
