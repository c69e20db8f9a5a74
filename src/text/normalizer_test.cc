#include "text/normalizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

#include "text/utf8.h"

namespace hocket::text {
namespace {

/// utf8proc's own NFC, whose way of ordering marks is another one.
std::string library_nfc(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &out,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string result(reinterpret_cast<const char*>(out), static_cast<size_t>(length));
  std::free(out);  // NOLINT: the library allocates with malloc
  return result;
}

TEST(Normalizer, ComposesAsTheLibraryDoes) {
  for (char32_t c = 1; c <= 0x10FFFF; ++c) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CS ||
        category == UTF8PROC_CATEGORY_CO)
      continue;
    std::string text;
    append_utf8(c, text);
    text += "\u0323\u0307\u0301";
    append_utf8(c, text);
    ASSERT_EQ(nfc(text), library_nfc(text)) << std::hex << static_cast<uint32_t>(c);
  }
}

TEST(Normalizer, TakesTheShortWayOnlyWhereNothingChanges) {
  MatchState state;
  std::vector<Normalizer::Step> steps;
  steps.emplace_back(Normalizer::Nfc{});
  const Normalizer normalizer(std::move(steps));
  for (char32_t a = 1; a < 0x300; ++a) {
    std::string text;
    for (char32_t b = 1; b < 0x300; ++b) {
      append_utf8(a, text);
      append_utf8(b, text);
    }
    std::string storage;
    ASSERT_EQ(normalizer.apply(text, storage, state), library_nfc(text));
  }
  std::string storage;
  EXPECT_EQ(normalizer.apply("e\u0301\u1112\u1161\u11ab", storage, state), "\u00e9\ud55c");
}

TEST(Normalizer, ComposesAcrossItsOwnSeams) {
  const unsigned seed = 5;
  std::mt19937 random(seed);
  const std::vector<std::string> units = {"a",      " ",      "é",      "\u0301", "\u0316",
                                          "\u0338", "=",      "\u1112", "\u1161", "\u11ab",
                                          "日",     "\u0344", "\u212b", "ﬁ",      "o",
                                          "\u031b", "\u0f71", "\u0f72", "🙂"};
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) text += units[random() % units.size()];
    ASSERT_EQ(nfc(text), library_nfc(text)) << text << " seed " << seed << " round " << round;
  }
}

TEST(Normalizer, LongRunsOfMarksAreNotQuadratic) {
  std::string marks;
  for (int i = 0; i < 500'000; ++i) marks += "\u0301\u0316";
  const std::string composed = nfc("e" + marks);
  EXPECT_EQ(composed.substr(0, 4), "\u00e9\u0316");
}

TEST(Normalizer, AppliesStepsInOrder) {
  MatchState state;
  std::vector<Normalizer::Step> steps;
  steps.emplace_back(Normalizer::Prepend{"_"});
  steps.emplace_back(Normalizer::Replace{Pattern::literal(" "), "_"});
  const Normalizer normalizer(std::move(steps));
  std::string storage;
  EXPECT_EQ(normalizer.apply("a b", storage, state), "_a_b");
  EXPECT_EQ(normalizer.apply("", storage, state), "");
}

}  // namespace
}  // namespace hocket::text
