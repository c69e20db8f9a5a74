// For tests only: golden files, and small tokenizers written by hand.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace hocket::text::testing {

/// The tokenizer of models/tiny-moe-fp8: byte-level BPE with Qwen's pattern.
Tokenizer tiny_tokenizer();

/// What `tokenizers` does with a text.
struct Case {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<int32_t> ids_plain;  ///< without special tokens added; as ids where the file has none
  std::string decoded;
  std::string decoded_skip_special;
};
/// test/data/tokenizer_cases.json.
std::vector<Case> tiny_cases();

struct Extra {
  std::string name;
  std::string tokenizer_json;
  std::vector<Case> cases;
};
/// test/data/tokenizer_extra/*.json, by name.
std::vector<Extra> extra_files();

/// A tokenizer.json over the letters a, b, c (ids 0, 1, 2), with `merges` as JSON and `more` fields
/// in front.
std::string small_json(std::string_view more, std::string_view merges = "[]",
                       std::string_view more_vocab = "");

}  // namespace hocket::text::testing
