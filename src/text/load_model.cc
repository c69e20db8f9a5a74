// The parts of a tokenizer.json that hold tokens: model and added_tokens.
#include <fmt/format.h>

#include "text/loader.h"

namespace hocket::text {

namespace {

int32_t token_id(const JsonNode& node) {
  const int64_t id = node.integer();
  if (id < 0 || id >= TokenTable::kIdLimit) {
    node.refuse(fmt::format("is {}; ids must lie in [0, {})", id, TokenTable::kIdLimit));
  }
  return static_cast<int32_t>(id);
}

// Paths are built for errors only: a vocabulary has hundreds of thousands of entries.
Vocabulary load_vocabulary(const JsonNode& node) {
  Vocabulary vocabulary;
  const simdjson::dom::object object = node.object();
  vocabulary.reserve(object.size());
  for (const auto field : object) {
    int64_t id = -1;
    if (field.value.get_int64().get(id) != simdjson::SUCCESS || id < 0 ||
        id >= TokenTable::kIdLimit) {
      token_id(JsonNode(field.value, fmt::format("{}[\"{}\"]", node.path(), field.key)));
    }
    switch (vocabulary.add(static_cast<int32_t>(id), field.key)) {
      case Vocabulary::Added::yes:
        break;
      case Vocabulary::Added::content_taken:
        node.refuse(fmt::format("has \"{}\" twice", field.key));
      case Vocabulary::Added::id_taken:
        node.refuse(fmt::format("gives id {} to \"{}\" and to \"{}\"", id,
                                vocabulary.tokens()[static_cast<int32_t>(id)], field.key));
    }
  }
  return vocabulary;
}

[[noreturn]] void refuse_entry(simdjson::dom::element entry, const JsonNode& list, size_t index,
                               std::string_view why) {
  JsonNode(entry, fmt::format("{}[{}]", list.path(), index)).refuse(why);
}

/// One merge: "a b" or ["a", "b"]. Nothing for the comment line that old files begin with.
std::optional<std::pair<std::string_view, std::string_view>> pair_of(simdjson::dom::element entry,
                                                                     const JsonNode& node,
                                                                     size_t index) {
  const auto broken = [&] { refuse_entry(entry, node, index, "is not a pair of tokens"); };
  std::string_view text;
  if (entry.get_string().get(text) == simdjson::SUCCESS) {
    if (text.starts_with("#version")) return std::nullopt;
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      broken();
    return std::pair{text.substr(0, space), text.substr(space + 1)};
  }
  std::pair<std::string_view, std::string_view> pair;
  simdjson::dom::array array;
  const bool good = entry.get_array().get(array) == simdjson::SUCCESS && array.size() == 2 &&
                    array.at(0).get_string().get(pair.first) == simdjson::SUCCESS &&
                    array.at(1).get_string().get(pair.second) == simdjson::SUCCESS;
  if (!good) broken();
  return pair;
}

Bpe::Merges load_merges(const JsonNode& node, const Vocabulary& vocabulary) {
  Bpe::Merges merges;
  const simdjson::dom::array array = node.array();
  merges.reserve(array.size());
  uint32_t rank = 0;
  size_t index = 0;
  std::string merged;
  for (const simdjson::dom::element entry : array) {
    const auto pair = pair_of(entry, node, index++);
    if (!pair) continue;
    merged.assign(pair->first).append(pair->second);
    const auto id = [&](std::string_view token) {
      const int32_t found = vocabulary.find(token);
      if (found < 0)
        refuse_entry(entry, node, index - 1,
                     fmt::format("names \"{}\", which is not in model.vocab", token));
      return found;
    };
    const int32_t left = id(pair->first);
    const int32_t right = id(pair->second);
    merges[Bpe::merge_key(left, right)] = {rank++, id(merged)};
  }
  return merges;
}

void refuse_unsupported(const JsonNode& model) {
  if (const auto type = model.find("type"); type && type->string() != "BPE") {
    type->refuse(fmt::format("is {}; supported is BPE", type->string()));
  }
  if (const auto dropout = model.find("dropout")) {
    double probability = 1;
    if (dropout->value().get_double().get(probability) != simdjson::SUCCESS || probability != 0) {
      dropout->refuse("is not null; BPE dropout is not supported");
    }
  }
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto node = model.find(affix);
    if (node && !node->string().empty())
      node->refuse(fmt::format("is \"{}\"; it is not supported", node->string()));
  }
}

}  // namespace

Bpe load_model(const JsonNode& root, bool raw_bytes) {
  const JsonNode model = root.at("model");
  refuse_unsupported(model);
  Vocabulary vocabulary = load_vocabulary(model.at("vocab"));
  Bpe::Merges merges = load_merges(model.at("merges"), vocabulary);
  Bpe::Options options{.fuse_unknown = model.boolean_or("fuse_unk", false),
                       .byte_fallback = model.boolean_or("byte_fallback", false),
                       .ignore_merges = model.boolean_or("ignore_merges", false),
                       .raw_bytes = raw_bytes};
  if (const auto unknown = model.find("unk_token")) {
    options.unknown = vocabulary.find(unknown->string());
    if (options.unknown < 0)
      unknown->refuse(fmt::format("is \"{}\", which is not in model.vocab", unknown->string()));
  }
  return Bpe(std::move(vocabulary), std::move(merges), options);
}

std::vector<AddedToken> load_added_tokens(const JsonNode& root) {
  std::vector<AddedToken> tokens;
  const auto list = root.find("added_tokens");
  if (!list) return tokens;
  for (const JsonNode& node : list->items()) {
    AddedToken token{.id = token_id(node.at("id")),
                     .content = std::string(node.at("content").string()),
                     .single_word = node.boolean_or("single_word", false),
                     .lstrip = node.boolean_or("lstrip", false),
                     .rstrip = node.boolean_or("rstrip", false),
                     .normalized = node.boolean_or("normalized", true),
                     .special = node.boolean_or("special", false)};
    if (token.content.empty()) node.refuse("has an empty content");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace hocket::text
