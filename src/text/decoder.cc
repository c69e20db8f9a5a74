#include "text/decoder.h"

#include <algorithm>
#include <charconv>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace hocket::text {

namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

using Position = Decoder::Position;

std::string apply(const Decoder::Replace& step, const std::string& token, Position,
                  MatchState& state) {
  return step.pattern.replace_all(token, step.content, state);
}

std::string apply(const Decoder::Metaspace& step, const std::string& token, Position position,
                  MatchState& state) {
  const bool drops = step.drops_first && position == Position::first;
  return Pattern::literal(step.replacement).replace_all(token, drops ? "" : " ", state);
}

std::string apply(const Decoder::Strip& step, const std::string& token, Position, MatchState&) {
  std::string_view rest = token;
  for (size_t i = 0; i < step.start && rest.starts_with(step.content); ++i)
    rest.remove_prefix(step.content.size());
  for (size_t i = 0; i < step.stop && rest.ends_with(step.content); ++i)
    rest.remove_suffix(step.content.size());
  return std::string(rest);
}

/// <0xAB> as one byte; other tokens as they are.
std::string fallback_byte(std::string token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return token;
  unsigned char byte = 0;
  const char* end = token.data() + 5;
  const auto [stop, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || stop != end) return token;
  return {static_cast<char>(byte)};
}

std::string render(const Decoder::Plan& plan, std::string token, Position position,
                   MatchState& state) {
  for (const Decoder::TokenStep& step : plan.token_steps) {
    token = std::visit([&](const auto& s) { return apply(s, token, position, state); }, step);
  }
  if (plan.bytes == Decoder::Bytes::byte_fallback) return fallback_byte(std::move(token));
  if (plan.bytes == Decoder::Bytes::byte_level) return byte_level_bytes(token).value_or(token);
  return token;
}

bool depends_on_position(const Decoder::TokenStep& step) {
  const auto* metaspace = std::get_if<Decoder::Metaspace>(&step);
  return metaspace != nullptr && metaspace->drops_first;
}

}  // namespace

Decoder::Decoder(Plan plan, const TokenTable& contents) : strip_(std::move(plan.strip)) {
  MatchState state;
  const bool positional = std::ranges::any_of(plan.token_steps, depends_on_position);
  for (int32_t id = 0; id < contents.size(); ++id) {
    if (!contents.contains(id)) continue;
    const std::string content(contents[id]);
    bytes_.set(id, render(plan, content, Position::later, state));
    if (positional) first_bytes_.set(id, render(plan, content, Position::first, state));
  }
}

std::string_view Decoder::bytes(int32_t id, Position position) const {
  return (position == Position::first && first_bytes_.size() > 0 ? first_bytes_ : bytes_)[id];
}

void TextStream::append(int32_t id, std::string& out) {
  if (!decoder_->known(id)) return;
  std::string_view bytes = decoder_->bytes(id, position_);
  position_ = Decoder::Position::later;
  if (!tail_.empty()) bytes = tail_ += bytes;
  while (!bytes.empty()) {
    const Utf8Part part = utf8_part(bytes);
    if (part.kind == Utf8Part::Kind::incomplete) break;
    const bool whole = part.kind == Utf8Part::Kind::character;
    character(whole ? bytes.substr(0, part.length) : kReplacementCharacter, out);
    bytes.remove_prefix(part.length);
  }
  tail_ = std::string(bytes);
}

void TextStream::finish(std::string& out) {
  if (!tail_.empty()) character(kReplacementCharacter, out);
  tail_.clear();
  trailing_ = 0;
}

void TextStream::character(std::string_view utf8, std::string& out) {
  const Decoder::Strip& strip = decoder_->strip();
  const bool strippable = (leading_ > 0 || strip.stop > 0) && utf8 == strip.content;
  if (strippable && leading_ > 0) {
    --leading_;
    return;
  }
  leading_ = 0;
  if (strippable && trailing_ < strip.stop) {
    ++trailing_;
    return;
  }
  if (!strippable) {
    for (; trailing_ > 0; --trailing_) out += strip.content;
  }
  out += utf8;
}

}  // namespace hocket::text
