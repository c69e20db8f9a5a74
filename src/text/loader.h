// Reads a tokenizer.json into the parts of a tokenizer. What is not listed in the table of
// supported parts is refused by name, because a tokenizer that is nearly right gives wrong tokens
// without a word.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/json_node.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"

namespace hocket::text {

/// What the post-processor puts around the ids of a text.
struct Surround {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

struct TokenizerParts {
  std::vector<AddedToken> added;
  AddedTokenFinder raw_tokens;         ///< added tokens looked for before normalisation
  AddedTokenFinder normalized_tokens;  ///< and after it
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  Surround surround;
  Decoder decoder;
};

/// Throws Error (bad_input) that names the part that is unknown or broken. `truncation` and
/// `padding` are ignored: a prompt is never cut without a word.
TokenizerParts load_parts(std::string_view json);

// One function for each part of the file, in the order of the table.
Normalizer load_normalizer(const JsonNode& root);
PreTokenizer load_pre_tokenizer(const JsonNode& root);
Bpe load_model(const JsonNode& root, bool raw_bytes);
Surround load_post_processor(const JsonNode& root);
Decoder::Plan load_decoder(const JsonNode& root);
std::vector<AddedToken> load_added_tokens(const JsonNode& root);

}  // namespace hocket::text
