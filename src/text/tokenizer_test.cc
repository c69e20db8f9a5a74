#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "text/test_files.h"

namespace hocket::text {
namespace {

using testing::Case;
using ::testing::HasSubstr;

TEST(Tokenizer, MatchesTheReferenceOnTheTinyModel) {
  const Tokenizer tokenizer = testing::tiny_tokenizer();
  const std::vector<Case> cases = testing::tiny_cases();
  ASSERT_EQ(cases.size(), 26u);
  for (const Case& c : cases) {
    EXPECT_EQ(tokenizer.encode(c.text).value(), c.ids) << c.text;
    EXPECT_EQ(tokenizer.decode(c.ids), c.decoded) << c.text;
    EXPECT_EQ(tokenizer.decode(c.ids, SpecialTokens::skip), c.decoded_skip_special) << c.text;
  }
}

TEST(Tokenizer, MatchesTheReferenceOnOtherConfigurations) {
  const auto files = testing::extra_files();
  ASSERT_GE(files.size(), 30u);
  for (const testing::Extra& file : files) {
    const auto tokenizer = Tokenizer::parse(file.tokenizer_json, file.name);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    ASSERT_GE(file.cases.size(), 50u);
    for (const Case& c : file.cases) {
      const std::string at = file.name + ": " + c.text;
      EXPECT_EQ(tokenizer->encode(c.text).value(), c.ids) << at;
      EXPECT_EQ(tokenizer->encode(c.text, Tokenizer::AddSpecial::off).value(), c.ids_plain) << at;
      EXPECT_EQ(tokenizer->decode(c.ids), c.decoded) << at;
      EXPECT_EQ(tokenizer->decode(c.ids, SpecialTokens::skip), c.decoded_skip_special) << at;
    }
  }
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer tokenizer = testing::tiny_tokenizer();
  EXPECT_EQ(tokenizer.size(), 765);
  EXPECT_EQ(tokenizer.id_of("<|im_end|>"), 764);
  EXPECT_EQ(tokenizer.id_of("!"), 0);
  EXPECT_EQ(tokenizer.id_of("no such token"), -1);
  EXPECT_EQ(tokenizer.bytes(764), "<|im_end|>");
  EXPECT_EQ(tokenizer.bytes(220), " ");
  EXPECT_EQ(tokenizer.bytes(765), "");
  EXPECT_EQ(tokenizer.bytes(-1), "");
  EXPECT_TRUE(tokenizer.is_special(762));
  EXPECT_FALSE(tokenizer.is_special(761));
  EXPECT_TRUE(tokenizer.known(0) && tokenizer.known(764));
  EXPECT_FALSE(tokenizer.known(765) || tokenizer.known(-1));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{39, 100000, -5, 68}), "He");
}

TEST(Tokenizer, NamesTheOffsetOfIllFormedText) {
  const Tokenizer tokenizer = testing::tiny_tokenizer();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\x80", "0x80 at offset 0"},
      {"ab\xC3", "0xc3 at offset 2"},
      {"a\xC3(", "0xc3 at offset 1"},
      {"\xED\xA0\x80", "0xed at offset 0"},
      {"\xF4\x90\x80\x80", "0xf4 at offset 0"},
      {std::string(1000, 'x') + "\xFF", "0xff at offset 1000"},
      {"\xC0\xAF", "0xc0 at offset 0"},
      {"é\xE2\x82", "0xe2 at offset 2"}};
  for (const auto& [text, where] : cases) {
    const auto ids = tokenizer.encode(text);
    ASSERT_FALSE(ids);
    EXPECT_EQ(ids.error().code, Code::bad_input);
    EXPECT_THAT(ids.error().message, HasSubstr(where));
  }
}

TEST(Tokenizer, NamesAFileThatIsMissing) {
  const auto tokenizer = Tokenizer::load("/nonexistent/tokenizer.json");
  ASSERT_FALSE(tokenizer);
  EXPECT_EQ(tokenizer.error().code, Code::missing);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("/nonexistent/tokenizer.json"));
}

// 500 KB each: a quadratic step anywhere would take hours, and ctest's time limit would end it.
TEST(Tokenizer, LongRunsAreNotQuadratic) {
  const Tokenizer tokenizer = testing::tiny_tokenizer();
  constexpr size_t kLength = 500'000;
  const auto repeat = [](std::string_view unit, size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += unit;
    return text;
  };
  for (const std::string_view unit :
       {"a", " ", "\n", " \n", "!", "<", "<|im_", "日", "e\u0301", "\u0316\u0301", "\r"}) {
    const std::string text = repeat(unit, kLength);
    const auto ids = tokenizer.encode(text + "x");
    ASSERT_TRUE(ids) << ids.error().message;
    EXPECT_GT(ids->size(), 10u);
  }
  const auto ids = tokenizer.encode(repeat("a", kLength));
  EXPECT_EQ(tokenizer.decode(*ids), repeat("a", kLength));
}

TEST(Tokenizer, EncodesAlikeFromManyThreads) {
  const Tokenizer tokenizer = testing::tiny_tokenizer();
  std::vector<std::string> texts;
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int j = 0; j < 30; ++j)
      text += std::string(1 + random() % 9, static_cast<char>('a' + random() % 26)) + " ";
    texts.push_back(text);
  }
  const Tokenizer fresh = testing::tiny_tokenizer();
  std::vector<std::vector<int32_t>> expected;
  for (const std::string& text : texts) expected.push_back(fresh.encode(text).value());
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t at = (i + t * 50) % texts.size();
        if (tokenizer.encode(texts[at]).value() != expected[at]) ++wrong[t];
        if (tokenizer.decode(expected[at]) != texts[at]) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(Tokenizer, DecodesBackWhatItEncoded) {
  const Tokenizer tokenizer = testing::tiny_tokenizer();
  const unsigned seed = 20240131;
  std::mt19937 random(seed);
  const std::vector<std::string> units = {"a", "B",  "7",    " ",      "\n", "'", "é",
                                          "ß", "日", "🙂", "\u200b", ".",  "\t"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (size_t j = random() % 40; j > 0; --j) text += units[random() % units.size()];
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).value()), text)
        << "seed " << seed << " round " << i;
  }
}

TEST(Tokenizer, SurvivesAMove) {
  Tokenizer first = testing::tiny_tokenizer();
  const auto ids = first.encode("Hello world").value();
  Tokenizer second = std::move(first);
  EXPECT_EQ(second.encode("Hello world").value(), ids);
}

}  // namespace
}  // namespace hocket::text
