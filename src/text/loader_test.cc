#include "text/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/test_files.h"
#include "text/tokenizer.h"

namespace hocket::text {
namespace {

using ::testing::HasSubstr;
using testing::small_json;

std::string refusal(const std::string& json) {
  const auto tokenizer = Tokenizer::parse(json, "tokenizer.json");
  if (tokenizer) return "accepted";
  EXPECT_EQ(tokenizer.error().code, Code::bad_input);
  EXPECT_THAT(tokenizer.error().message, ::testing::StartsWith("tokenizer.json: "));
  return tokenizer.error().message;
}

TEST(Loader, AcceptsASmallFile) {
  const auto tokenizer = Tokenizer::parse(small_json("", R"(["a b"])", R"(, "ab": 3)"), "x");
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->encode("abcab").value(), (std::vector<int32_t>{3, 2, 3}));
}

TEST(Loader, RefusesUnknownPartsByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("normalizer": {"type": "Lowercase"}, )", "normalizer has type Lowercase"},
      {R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Bert"}]}, )",
       "normalizer.normalizers[1] has type Bert"},
      {R"("normalizer": {}, )", "normalizer has no \"type\""},
      {R"("normalizer": 3, )", "normalizer is a number and should be an object"},
      {R"("pre_tokenizer": {"type": "Punctuation"}, )", "pre_tokenizer has type Punctuation"},
      {R"("pre_tokenizer": {"type": "Split", "pattern": {"String": "x"}, "behavior": "Glued"}, )",
       "pre_tokenizer.behavior is Glued"},
      {R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"}, )",
       "pre_tokenizer.pattern.Regex the pattern does not compile"},
      {R"("pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a\\bc"}, "behavior": "Isolated"}, )",
       "\\b at byte 1 of the pattern is not supported"},
      {R"("pre_tokenizer": {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated"}, )",
       "is empty"},
      {R"("pre_tokenizer": {"type": "Metaspace", "replacement": "__"}, )",
       "should be one character"},
      {R"("pre_tokenizer": {"type": "Metaspace", "replacement": "_", "add_prefix_space": false}, )",
       "add_prefix_space"},
      {R"("pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}, )",
       "prepend_scheme is last"},
      {R"("post_processor": {"type": "BertProcessing"}, )",
       "post_processor has type BertProcessing"},
      {R"("post_processor": {"type": "TemplateProcessing", "single": [], "special_tokens": {}}, )",
       "has no place for sequence A"},
      {R"("post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}],
           "special_tokens": {}}, )",
       "post_processor.single[0]"},
      {R"("post_processor": {"type": "TemplateProcessing", "special_tokens": {"s": {"ids": [77]}},
           "single": [{"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "A"}}]}, )",
       "post_processor adds id 77"},
      {R"("post_processor": {"type": "TemplateProcessing", "special_tokens": {},
           "single": [{"SpecialToken": {"id": "s"}}, {"Sequence": {"id": "A"}}]}, )",
       "special_tokens has no \"s\""},
      {R"("added_tokens": [{"id": 0, "content": "x"}], )", "takes the id of \"a\""},
      {R"("added_tokens": [{"id": 9, "content": "a"}], )", "has id 0 in model.vocab"},
      {R"("added_tokens": [{"id": 9, "content": "x"}, {"id": 9, "content": "y"}], )",
       "is there twice"},
      {R"("added_tokens": [{"id": 9, "content": ""}], )", "empty content"},
      {R"("added_tokens": [{"id": 2000000000, "content": "x"}], )",
       "added_tokens[0].id is 2000000000"},
      {R"("added_tokens": [{"id": -1, "content": "x"}], )", "added_tokens[0].id is -1"},
      {R"("added_tokens": [{"id": 3, "content": "x", "special": 1}], )", "special is a number"}};
  for (const auto& [more, message] : cases)
    EXPECT_THAT(refusal(small_json(more)), HasSubstr(message)) << more;
}

TEST(Loader, RefusesUnknownModelsByName) {
  const auto model = [](std::string_view fields) {
    return R"({"decoder": {"type": "Fuse"}, "model": {)" + std::string(fields) + "}}";
  };
  const std::string good = R"("vocab": {"a": 0, "b": 1}, "merges": [], )";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("type": "Unigram", "vocab": [])", "model.type is Unigram"},
      {R"("merges": [])", "model has no \"vocab\""},
      {R"("vocab": {})", "model has no \"merges\""},
      {good + R"("dropout": 0.1)", "model.dropout"},
      {good + R"("continuing_subword_prefix": "##")", "model.continuing_subword_prefix is \"##\""},
      {good + R"("end_of_word_suffix": "</w>")", "model.end_of_word_suffix"},
      {good + R"("unk_token": "<unk>")", "model.unk_token is \"<unk>\""},
      {good + R"("byte_fallback": "yes")", "model.byte_fallback is a string"},
      {R"("vocab": {"a": 0, "b": 0}, "merges": [])", "gives id 0 to \"a\" and to \"b\""},
      {R"("vocab": {"a": 0, "a": 1}, "merges": [])", "has \"a\" twice"},
      {R"("vocab": {"a": -3}, "merges": [])", "model.vocab[\"a\"] is -3"},
      {R"("vocab": {"a": 1e300}, "merges": [])",
       "model.vocab[\"a\"] is a number and should be an integer"},
      {R"("vocab": {"a": 0}, "merges": ["a b"])", "[0] names \"b\""},
      {R"("vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]])", "[0] names \"ab\""},
      {R"("vocab": {"a": 0}, "merges": ["a b c"])", "[0] is not a pair"},
      {R"("vocab": {"a": 0}, "merges": [["a"]])", "[0] is not a pair"},
      {R"("vocab": {"a": 0}, "merges": [7])", "[0] is not a pair"}};
  for (const auto& [fields, message] : cases)
    EXPECT_THAT(refusal(model(fields)), HasSubstr(message)) << fields;
  EXPECT_EQ(refusal(model(good + R"("dropout": 0.0, "end_of_word_suffix": "")")), "accepted");
}

std::string decoder_refusal(const std::string& decoder) {
  const std::string json =
      R"({"model": {"vocab": {"a": 0}, "merges": []}, "decoder": )" + decoder + "}";
  return refusal(json);
}
std::string chain(const std::string& decoders) {
  return R"({"type": "Sequence", "decoders": [)" + decoders + "]}";
}

TEST(Loader, RefusesDecodersThatCannotStream) {
  const std::string fuse = R"({"type": "Fuse"})";
  const std::string strip = R"({"type": "Strip", "content": " ", "start": 1, "stop": 0})";
  const std::string fallback = R"({"type": "ByteFallback"})";
  const std::string replace = R"({"type": "Replace", "pattern": {"String": "_"}, "content": " "})";
  EXPECT_THAT(decoder_refusal("null"), HasSubstr("decoder is missing or null"));
  EXPECT_THAT(decoder_refusal(R"({"type": "WordPiece"})"), HasSubstr("decoder has type WordPiece"));
  EXPECT_THAT(decoder_refusal(chain(fuse + "," + replace)),
              HasSubstr("decoder.decoders[1] is Replace behind Fuse"));
  EXPECT_THAT(decoder_refusal(chain(fallback + "," + replace)), HasSubstr("decoder.decoders[1]"));
  EXPECT_THAT(decoder_refusal(chain(fallback + "," + strip)), HasSubstr("decoder.decoders[1]"));
  EXPECT_THAT(decoder_refusal(chain(fuse + "," + strip + "," + strip)),
              HasSubstr("decoder.decoders[2]"));
  EXPECT_EQ(decoder_refusal(chain(replace + "," + fallback + "," + fuse + "," + strip)),
            "accepted");
}

TEST(Loader, RefusesWhatIsNoJson) {
  EXPECT_THAT(refusal(""), HasSubstr("is not valid JSON"));
  EXPECT_THAT(refusal("{"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("is an array and should be an object"));
  EXPECT_THAT(refusal(std::string(5000, '[')), HasSubstr("is not valid JSON"));
}

TEST(Loader, IgnoresTruncationAndPadding) {
  const auto tokenizer = Tokenizer::parse(
      small_json(R"("truncation": {"max_length": 2}, "padding": {"strategy": {"Fixed": 9}}, )"),
      "x");
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->encode("abcab").value(), (std::vector<int32_t>{0, 1, 2, 0, 1}));
}

TEST(Loader, AcceptsTokensOutsideTheVocabulary) {
  const auto tokenizer =
      Tokenizer::parse(small_json(R"("added_tokens": [{"id": 50, "content": "<x>"}], )"), "x");
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(tokenizer->size(), 51);
  EXPECT_FALSE(tokenizer->known(49));
  EXPECT_EQ(tokenizer->encode("a<x>b").value(), (std::vector<int32_t>{0, 50, 1}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{0, 49, 50}), "a<x>");
}

}  // namespace
}  // namespace hocket::text
