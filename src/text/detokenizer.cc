#include "text/detokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace hocket::text {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& text : stops) {
    if (text.empty() || first_ill_formed(text) != std::string::npos) continue;
    Stop stop{text, std::vector<size_t>(text.size() + 1, 0)};
    size_t length = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      while (length > 0 && text[i] != text[length]) length = stop.border[length];
      if (text[i] == text[length]) ++length;
      stop.border[i + 1] = length;
    }
    stops_.push_back(std::move(stop));
  }
}

std::optional<std::string_view> StopMatcher::next(char byte) {
  std::optional<std::string_view> ended;
  for (Stop& stop : stops_) {
    while (stop.matched > 0 && byte != stop.text[stop.matched])
      stop.matched = stop.border[stop.matched];
    if (byte == stop.text[stop.matched]) ++stop.matched;
    if (stop.matched < stop.text.size()) continue;
    stop.matched = stop.border[stop.matched];
    if (!ended || ended->size() < stop.text.size()) ended = stop.text;
  }
  return ended;
}

size_t StopMatcher::held() const {
  size_t longest = 0;
  for (const Stop& stop : stops_) longest = std::max(longest, stop.matched);
  return longest;
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, Options options)
    : tokenizer_(&tokenizer),
      options_(std::move(options)),
      stream_(tokenizer.decoder()),
      matcher_(options_.stop) {}

Detokenizer::Piece Detokenizer::append(int32_t id) {
  if (done_) return {};
  ++tokens_;
  if (options_.special == SpecialTokens::skip && tokenizer_->is_special(id)) return {};
  std::string decoded;
  stream_.append(id, decoded);
  return release(decoded);
}

std::string Detokenizer::finish() {
  if (done_) return {};
  std::string decoded;
  stream_.finish(decoded);
  std::string text = release(decoded).text;
  if (!done_) text += pending_.substr(begin_);
  done_ = true;
  return text;
}

/// Adds decoded text and gives back what cannot be part of a stop string any more.
Detokenizer::Piece Detokenizer::release(std::string_view decoded) {
  Piece piece;
  for (const char byte : decoded) {
    pending_.push_back(byte);
    const auto stop = matcher_.next(byte);
    if (!stop || tokens_ < options_.min_tokens) continue;
    done_ = true;
    piece.stopped_by = std::string(*stop);
    const size_t end = pending_.size() - (options_.include_stop ? 0 : stop->size());
    piece.text = pending_.substr(begin_, end - begin_);
    return piece;
  }
  const size_t safe = pending_.size() - matcher_.held();
  piece.text = pending_.substr(begin_, safe - begin_);
  begin_ = safe;
  if (begin_ > pending_.size() / 2) {  // seldom enough that a long hold does not become quadratic
    pending_.erase(0, begin_);
    begin_ = 0;
  }
  return piece;
}

}  // namespace hocket::text
