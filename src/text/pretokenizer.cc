#include "text/pretokenizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace hocket::text {

namespace {

using Behavior = PreTokenizer::Behavior;

/// Folds parts as the behaviours of `tokenizers` do: `joins(part, previous)` says whether a part
/// joins its neighbour.
template <class Joins>
void fold(std::vector<Part>& parts, Joins joins) {
  size_t kept = 0;
  bool previous = false;
  for (const Part part : parts) {
    if (kept > 0 && joins(part.is_match, previous)) {
      parts[kept - 1].begin = std::min(parts[kept - 1].begin, part.begin);
      parts[kept - 1].end = std::max(parts[kept - 1].end, part.end);
    } else {
      parts[kept++] = part;
    }
    previous = part.is_match;
  }
  parts.resize(kept);
}

void apply_behavior(Behavior behavior, std::vector<Part>& parts) {
  const auto match_after_other = [](bool match, bool previous) { return match && !previous; };
  switch (behavior) {
    case Behavior::isolated:
      break;
    case Behavior::removed:
      std::erase_if(parts, [](const Part& part) { return part.is_match; });
      break;
    case Behavior::contiguous:
      fold(parts, [](bool match, bool previous) { return match == previous; });
      break;
    case Behavior::merged_with_previous:
      fold(parts, match_after_other);
      break;
    case Behavior::merged_with_next:
      std::ranges::reverse(parts);
      fold(parts, match_after_other);
      std::ranges::reverse(parts);
      break;
  }
}

void push(std::string_view text, bool at_start, Words& words) {
  if (!text.empty()) words.next.push_back({text, at_start});
}

void push_parts(const Word& word, Words& words) {
  for (const Part& part : words.parts) {
    push(word.text.substr(part.begin, part.end - part.begin), word.at_start && part.begin == 0,
         words);
  }
}

void cut(const PreTokenizer::Split& step, const Word& word, Words& words) {
  step.pattern.split(word.text, words.match, words.parts);
  if (step.invert) {
    for (Part& part : words.parts) part.is_match = !part.is_match;
  }
  apply_behavior(step.behavior, words.parts);
  push_parts(word, words);
}

void cut(const PreTokenizer::ByteLevel& step, const Word& word, Words& words) {
  Word whole = word;
  if (step.add_prefix_space && !word.text.starts_with(' ')) {
    whole.text = words.owned.emplace_back(" " + std::string(word.text));
  }
  if (!step.pattern) return push(whole.text, whole.at_start, words);
  step.pattern->split(whole.text, words.match, words.parts);
  push_parts(whole, words);
}

/// Rust's char::is_numeric.
bool is_numeric(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

void cut(const PreTokenizer::Digits& step, const Word& word, Words& words) {
  words.parts.clear();
  for (size_t at = 0; at < word.text.size();) {
    const Utf8Part part = utf8_part(word.text.substr(at));
    words.parts.push_back({at, at + part.length, is_numeric(part.code_point)});
    at += part.length;
  }
  const bool individual = step.individual;
  fold(words.parts,
       [&](bool match, bool previous) { return match == previous && !(individual && match); });
  push_parts(word, words);
}

void cut(const PreTokenizer::Metaspace& step, const Word& word, Words& words) {
  using Prepend = PreTokenizer::Metaspace::Prepend;
  std::string& text = words.owned.emplace_back();
  const bool starts = word.text.starts_with(' ') || word.text.starts_with(step.replacement);
  if (!starts &&
      (step.prepend == Prepend::always || (step.prepend == Prepend::first && word.at_start))) {
    text = step.replacement;
  }
  for (const char c : word.text) {
    if (c == ' ') {
      text += step.replacement;
    } else {
      text.push_back(c);
    }
  }
  const Word whole{text, word.at_start};
  if (!step.split) return push(whole.text, whole.at_start, words);
  step.find_replacement.split(whole.text, words.match, words.parts);
  apply_behavior(Behavior::merged_with_next, words.parts);
  push_parts(whole, words);
}

}  // namespace

bool PreTokenizer::raw_bytes() const {
  return !steps_.empty() && std::holds_alternative<ByteLevel>(steps_.back());
}

void PreTokenizer::apply(Words& words) const {
  for (const Step& step : steps_) {
    words.next.clear();
    for (const Word& word : words.list) {
      std::visit([&](const auto& s) { cut(s, word, words); }, step);
    }
    words.list.swap(words.next);
    if (std::holds_alternative<ByteLevel>(step) && &step != &steps_.back()) {
      for (Word& word : words.list)
        word.text = words.owned.emplace_back(byte_level_characters(word.text));
    }
  }
}

Pattern gpt2_pattern() {
  return Pattern::regex(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
}

}  // namespace hocket::text
