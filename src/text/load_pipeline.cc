// The parts of a tokenizer.json that say what happens to text: normalizer, pre_tokenizer,
// post_processor, decoder.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <utility>

#include "base/error.h"
#include "text/loader.h"
#include "text/utf8.h"

namespace hocket::text {

namespace {

[[noreturn]] void refuse_type(const JsonNode& node, std::string_view supported) {
  node.refuse(fmt::format("has type {}; supported are {}", node.type(), supported));
}

/// Calls `each` for every node that is not a Sequence, in order.
void flatten(const JsonNode& node, std::string_view members,
             const std::function<void(const JsonNode&)>& each) {
  if (node.type() != "Sequence") return each(node);
  for (const JsonNode& item : node.at(members).items()) flatten(item, members, each);
}

/// {"String": "..."} or {"Regex": "..."}.
Pattern load_pattern(const JsonNode& node) {
  const auto literal = node.find("String");
  const auto regex = node.find("Regex");
  if (literal.has_value() == regex.has_value()) node.refuse("must have either String or Regex");
  if (literal) {
    if (literal->string().empty()) literal->refuse("is empty");
    return Pattern::literal(std::string(literal->string()));
  }
  try {
    return Pattern::regex(regex->string());
  } catch (const Error& error) {
    regex->refuse(error.what());
  }
}

std::string one_character(const JsonNode& node) {
  const std::string_view text = node.string();
  if (text.empty() || utf8_part(text).length != text.size()) {
    node.refuse(fmt::format("is \"{}\" and should be one character", text));
  }
  return std::string(text);
}

template <class Value, size_t N>
Value choose(const JsonNode& node,
             const std::array<std::pair<std::string_view, Value>, N>& choices) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (node.string() == name) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  node.refuse(fmt::format("is {}; supported are {}", node.string(), names));
}

PreTokenizer::Split load_split(const JsonNode& node) {
  using enum PreTokenizer::Behavior;
  static constexpr std::array<std::pair<std::string_view, PreTokenizer::Behavior>, 5> kBehaviors = {
      {{"Isolated", isolated},
       {"Removed", removed},
       {"MergedWithPrevious", merged_with_previous},
       {"MergedWithNext", merged_with_next},
       {"Contiguous", contiguous}}};
  return {load_pattern(node.at("pattern")), choose(node.at("behavior"), kBehaviors),
          node.boolean_or("invert", false)};
}

using Prepend = PreTokenizer::Metaspace::Prepend;

/// Shared by pre-tokenizer and decoder. Old files say add_prefix_space instead of prepend_scheme.
Prepend load_prepend_scheme(const JsonNode& node) {
  static constexpr std::array<std::pair<std::string_view, Prepend>, 3> kSchemes = {
      {{"always", Prepend::always}, {"first", Prepend::first}, {"never", Prepend::never}}};
  const auto named = node.find("prepend_scheme");
  const Prepend scheme = named ? choose(*named, kSchemes) : Prepend::always;
  if (!node.boolean_or("add_prefix_space", true) && scheme != Prepend::never) {
    node.refuse("says add_prefix_space: false, which does not agree with its prepend_scheme");
  }
  return scheme;
}

PreTokenizer::Step load_pre_tokenizer_step(const JsonNode& node) {
  const std::string_view type = node.type();
  if (type == "Split") return load_split(node);
  if (type == "Digits") return PreTokenizer::Digits{node.boolean_or("individual_digits", false)};
  if (type == "ByteLevel") {
    const bool use_regex = node.boolean_or("use_regex", true);
    return PreTokenizer::ByteLevel{node.boolean_or("add_prefix_space", true),
                                   use_regex ? std::optional(gpt2_pattern()) : std::nullopt};
  }
  if (type == "Metaspace") {
    std::string replacement = one_character(node.at("replacement"));
    Pattern pattern = Pattern::literal(replacement);
    return PreTokenizer::Metaspace{std::move(replacement), std::move(pattern),
                                   load_prepend_scheme(node), node.boolean_or("split", true)};
  }
  refuse_type(node, "Split, ByteLevel, Digits, Metaspace, Sequence");
}

Normalizer::Step load_normalizer_step(const JsonNode& node) {
  const std::string_view type = node.type();
  if (type == "NFC") return Normalizer::Nfc{};
  if (type == "Prepend") return Normalizer::Prepend{std::string(node.at("prepend").string())};
  if (type == "Replace") {
    return Normalizer::Replace{load_pattern(node.at("pattern")),
                               std::string(node.at("content").string())};
  }
  refuse_type(node, "NFC, Prepend, Replace, Sequence");
}

/// The single template of a TemplateProcessing: special tokens around the text.
Surround load_template(const JsonNode& node) {
  Surround surround;
  bool text_seen = false;
  for (const JsonNode& piece : node.at("single").items()) {
    if (const auto sequence = piece.find("Sequence")) {
      if (sequence->at("id").string() != "A" || text_seen)
        piece.refuse("must be the one place of sequence A");
      text_seen = true;
      continue;
    }
    const std::string_view name = piece.at("SpecialToken").at("id").string();
    for (const JsonNode& id : node.at("special_tokens").at(name).at("ids").items()) {
      const int64_t value = id.integer();
      if (value < 0 || value >= TokenTable::kIdLimit)
        id.refuse(fmt::format("is {}, which is no token", value));
      (text_seen ? surround.after : surround.before).push_back(static_cast<int32_t>(value));
    }
  }
  if (!text_seen) node.at("single").refuse("has no place for sequence A");
  return surround;
}

/// Brings a chain of decoders into the form of Decoder::Plan, or refuses it.
class DecoderPlanner {
 public:
  void add(const JsonNode& node) {
    const std::string_view type = node.type();
    if (type == "Fuse") {
      joined_ = true;
    } else if (type == "Strip") {
      strip(node);
    } else if (type == "ByteLevel" || type == "ByteFallback") {
      only_before_joining(node);
      plan_.bytes =
          type == "ByteLevel" ? Decoder::Bytes::byte_level : Decoder::Bytes::byte_fallback;
      joined_ = type == "ByteLevel";
    } else if (type == "Replace") {
      only_before_joining(node);
      plan_.token_steps.emplace_back(Decoder::Replace{load_pattern(node.at("pattern")),
                                                      std::string(node.at("content").string())});
    } else if (type == "Metaspace") {
      only_before_joining(node);
      plan_.token_steps.emplace_back(Decoder::Metaspace{
          one_character(node.at("replacement")), load_prepend_scheme(node) != Prepend::never});
    } else {
      refuse_type(node, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, Sequence");
    }
  }
  Decoder::Plan plan() { return std::move(plan_); }

 private:
  // Behind these, `tokenizers` works on text that is not known token by token, so it could not be
  // streamed.
  void only_before_joining(const JsonNode& node) const {
    if (!joined_ && plan_.bytes == Decoder::Bytes::as_is) return;
    node.refuse(fmt::format("is {} behind Fuse, ByteLevel or ByteFallback; that is not supported",
                            node.type()));
  }
  void strip(const JsonNode& node) {
    const auto count = [&](std::string_view key) {
      const JsonNode at = node.at(key);
      const int64_t value = at.integer();
      if (value < 0) at.refuse(fmt::format("is {}", value));
      return static_cast<size_t>(value);
    };
    Decoder::Strip strip{one_character(node.at("content")), count("start"), count("stop")};
    if (!joined_ && plan_.bytes == Decoder::Bytes::as_is) {
      plan_.token_steps.emplace_back(std::move(strip));
    } else if (joined_ && plan_.strip.content.empty()) {
      plan_.strip = std::move(strip);
    } else {
      node.refuse(
          "is a Strip between ByteFallback and Fuse, or a second one behind Fuse; that is not "
          "supported");
    }
  }

  Decoder::Plan plan_;
  bool joined_ = false;
};

}  // namespace

Normalizer load_normalizer(const JsonNode& root) {
  std::vector<Normalizer::Step> steps;
  if (const auto node = root.find("normalizer")) {
    flatten(*node, "normalizers",
            [&](const JsonNode& item) { steps.push_back(load_normalizer_step(item)); });
  }
  return Normalizer(std::move(steps));
}

PreTokenizer load_pre_tokenizer(const JsonNode& root) {
  std::vector<PreTokenizer::Step> steps;
  if (const auto node = root.find("pre_tokenizer")) {
    flatten(*node, "pretokenizers",
            [&](const JsonNode& item) { steps.push_back(load_pre_tokenizer_step(item)); });
  }
  return PreTokenizer(std::move(steps));
}

Surround load_post_processor(const JsonNode& root) {
  Surround all;
  const auto node = root.find("post_processor");
  if (!node) return all;
  flatten(*node, "processors", [&](const JsonNode& item) {
    if (item.type() == "ByteLevel") return;  // changes offsets only
    if (item.type() != "TemplateProcessing")
      refuse_type(item, "ByteLevel, TemplateProcessing, Sequence");
    const Surround one = load_template(item);
    all.before.insert(all.before.begin(), one.before.begin(), one.before.end());
    all.after.insert(all.after.end(), one.after.begin(), one.after.end());
  });
  return all;
}

Decoder::Plan load_decoder(const JsonNode& root) {
  const auto node = root.find("decoder");
  if (!node)
    root.refuse(
        "decoder is missing or null; supported are ByteLevel, Replace, ByteFallback, Fuse, Strip, "
        "Metaspace, Sequence");
  DecoderPlanner planner;
  flatten(*node, "decoders", [&](const JsonNode& item) { planner.add(item); });
  return planner.plan();
}

}  // namespace hocket::text
