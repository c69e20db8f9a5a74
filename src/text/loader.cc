#include "text/loader.h"

#include <fmt/format.h>

#include "base/error.h"

namespace hocket::text {

namespace {

/// What each added token is looked for and decoded as: normalised where it asks for that, like the
/// reference.
std::vector<std::string> spell(const std::vector<AddedToken>& added, const Normalizer& normalizer) {
  std::vector<std::string> spellings;
  MatchState state;
  for (const AddedToken& token : added) {
    std::string storage;
    spellings.emplace_back(token.normalized ? normalizer.apply(token.content, storage, state)
                                            : std::string_view(token.content));
  }
  return spellings;
}

/// Added tokens may repeat entries of the vocabulary, but must agree with it.
void check_added_tokens(const std::vector<AddedToken>& added, const Vocabulary& vocabulary) {
  Vocabulary seen;
  for (const AddedToken& token : added) {
    const auto refuse = [&](std::string_view why) {
      throw Error(Code::bad_input,
                  fmt::format("added_tokens: \"{}\" with id {} {}", token.content, token.id, why));
    };
    const int32_t known = vocabulary.find(token.content);
    if (known >= 0 && known != token.id) refuse(fmt::format("has id {} in model.vocab", known));
    if (known < 0 && vocabulary.tokens().contains(token.id)) {
      refuse(fmt::format("takes the id of \"{}\" in model.vocab", vocabulary.tokens()[token.id]));
    }
    if (seen.add(token.id, token.content) != Vocabulary::Added::yes) refuse("is there twice");
  }
}

Decoder make_decoder(const JsonNode& root, const TokenizerParts& parts,
                     const std::vector<std::string>& spellings) {
  TokenTable contents;
  const TokenTable& vocabulary = parts.model.vocabulary().tokens();
  for (size_t i = 0; i < parts.added.size(); ++i) contents.set(parts.added[i].id, spellings[i]);
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.contains(id) && !contents.contains(id)) contents.set(id, vocabulary[id]);
  }
  return Decoder(load_decoder(root), contents);
}

void check_surround(const Surround& surround, const Decoder& decoder) {
  for (const auto* ids : {&surround.before, &surround.after}) {
    for (const int32_t id : *ids) {
      if (decoder.known(id)) continue;
      throw Error(Code::bad_input, fmt::format("post_processor adds id {}, which is no token", id));
    }
  }
}

}  // namespace

TokenizerParts load_parts(std::string_view json) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  const auto error = parser.parse(json.data(), json.size()).get(document);
  if (error != simdjson::SUCCESS) {
    throw Error(Code::bad_input,
                fmt::format("is not valid JSON: {}", simdjson::error_message(error)));
  }
  const JsonNode root(document, "");
  PreTokenizer pre_tokenizer = load_pre_tokenizer(root);
  Bpe model = load_model(root, pre_tokenizer.raw_bytes());
  TokenizerParts parts{.added = load_added_tokens(root),
                       .raw_tokens = {},
                       .normalized_tokens = {},
                       .normalizer = load_normalizer(root),
                       .pre_tokenizer = std::move(pre_tokenizer),
                       .model = std::move(model),
                       .surround = load_post_processor(root),
                       .decoder = {}};
  check_added_tokens(parts.added, parts.model.vocabulary());
  const std::vector<std::string> spellings = spell(parts.added, parts.normalizer);
  for (size_t i = 0; i < parts.added.size(); ++i) {
    const AddedToken& token = parts.added[i];
    (token.normalized ? parts.normalized_tokens : parts.raw_tokens).add(token, spellings[i]);
  }
  parts.decoder = make_decoder(root, parts, spellings);
  check_surround(parts.surround, parts.decoder);
  return parts;
}

}  // namespace hocket::text
