#include "text/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/utf8.h"

namespace hocket::text {

namespace {

uint64_t edge(size_t node, char byte) {
  return uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

/// The last character of well-formed text that is not empty.
std::string_view last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return text.substr(begin);
}

/// Where the white space that ends at `end` begins, not before `low`.
size_t skip_space_back(std::string_view text, size_t low, size_t end) {
  while (end > low) {
    const std::string_view character = last_character(text.substr(0, end));
    if (!is_white_space(utf8_part(character).code_point)) break;
    end -= character.size();
  }
  return end;
}

size_t skip_space(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Part part = utf8_part(text.substr(begin));
    if (!is_white_space(part.code_point)) break;
    begin += part.length;
  }
  return begin;
}

}  // namespace

// Rust's \w, which is what the reference tests words with.
AddedTokenFinder::AddedTokenFinder()
    : token_at_{-1},
      word_character_(Pattern::pcre2(R"(\A[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])")) {}

void AddedTokenFinder::add(const AddedToken& token, std::string_view spelling) {
  if (spelling.empty()) {
    throw Error(Code::bad_input,
                fmt::format("added token {} is empty after normalisation", token.id));
  }
  size_t node = 0;
  for (const char byte : spelling) {
    int32_t& next = edges_[edge(node, byte)];
    if (next == 0) {
      next = static_cast<int32_t>(token_at_.size());
      token_at_.push_back(-1);
    }
    node = static_cast<size_t>(next);
  }
  if (token_at_[node] >= 0) {
    throw Error(Code::bad_input,
                fmt::format("added tokens {} and {} are both \"{}\" after normalisation",
                            tokens_[static_cast<size_t>(token_at_[node])].id, token.id, spelling));
  }
  token_at_[node] = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  can_begin_[static_cast<unsigned char>(spelling[0])] = true;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::find(std::string_view text,
                                                              size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!can_begin_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Match> longest;
    size_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const int32_t* next = edges_.find(edge(node, text[at]));
      if (next == nullptr) break;
      node = static_cast<size_t>(*next);
      if (token_at_[node] >= 0)
        longest = {begin, at + 1, &tokens_[static_cast<size_t>(token_at_[node])]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

bool AddedTokenFinder::inside_word(std::string_view text, const Match& match,
                                   MatchState& state) const {
  const auto is_word = [&](std::string_view character) {
    return word_character_.matches_prefix(character, state);
  };
  if (match.begin > 0 && is_word(last_character(text.substr(0, match.begin)))) return true;
  if (match.end == text.size()) return false;
  return is_word(text.substr(match.end, utf8_part(text.substr(match.end)).length));
}

void AddedTokenFinder::split(std::string_view text, MatchState& state,
                             FunctionRef<void(std::string_view, int32_t)> stretch) const {
  size_t done = 0;
  size_t space_end = 0;  // white space is known to reach from the last rstrip to here
  std::optional<Match> match = tokens_.empty() ? std::nullopt : find(text, 0);
  for (; match; match = find(text, match->end)) {
    const AddedToken& token = *match->token;
    if (token.single_word && inside_word(text, *match, state)) continue;
    size_t begin = match->begin;
    size_t end = match->end;
    if (token.lstrip) begin = std::max(done, skip_space_back(text, std::min(done, begin), begin));
    if (token.rstrip) end = space_end = end < space_end ? space_end : skip_space(text, end);
    if (done < begin) stretch(text.substr(done, begin - done), -1);
    stretch({}, token.id);
    done = end;
  }
  if (done < text.size()) stretch(text.substr(done), -1);
}

}  // namespace hocket::text
