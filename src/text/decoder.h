// The `decoder` of a tokenizer.json: ids to text, all at once or one by one with the same result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"
#include "text/vocabulary.h"

namespace hocket::text {

/// What each token stands for, as bytes, and what is stripped from the joined text. Every chain of
/// decoders that is accepted fits this form, so that text can be streamed. Immutable; may be used
/// from any thread.
class Decoder {
 public:
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  struct Metaspace {
    std::string replacement;
    bool drops_first;  ///< the replacement vanishes from the first token, instead of becoming a
                       ///< space
  };
  struct Strip {
    std::string content;  ///< one character
    size_t start = 0;     ///< at most so many are taken from the beginning
    size_t stop = 0;      ///< and from the end
  };
  using TokenStep = std::variant<Replace, Metaspace, Strip>;
  enum class Bytes : uint8_t {
    as_is,
    byte_level,  ///< GPT-2's characters become bytes; a token with another character stays as it is
    byte_fallback,  ///< <0xAB> becomes a byte
  };
  struct Plan {
    std::vector<TokenStep> token_steps;  ///< done to each token, in order
    Bytes bytes = Bytes::as_is;          ///< then this
    Strip strip;  ///< then the tokens are joined, and this is done to the text
  };

  Decoder() = default;
  /// `contents`: of all tokens, added ones too.
  Decoder(Plan plan, const TokenTable& contents);

  enum class Position : uint8_t { first, later };
  /// What `id` adds to the text, before Strip; empty for unknown ids.
  std::string_view bytes(int32_t id, Position position) const;
  bool known(int32_t id) const { return bytes_.contains(id); }
  const Strip& strip() const { return strip_; }
  int32_t size() const { return bytes_.size(); }  ///< largest id + 1

 private:
  TokenTable bytes_;
  TokenTable first_bytes_;  // empty unless a step depends on the position
  Strip strip_;
};

/// Text from tokens one by one. Gives whole characters only; each maximal ill-formed part becomes
/// U+FFFD as soon as it is certain that it is one. (`tokenizers` gives one U+FFFD a byte with
/// ByteFallback, which needs the future.) Not thread safe.
class TextStream {
 public:
  explicit TextStream(const Decoder& decoder)
      : decoder_(&decoder), leading_(decoder.strip().start) {}
  /// Appends to `out` what is certain after this token. Unknown ids are skipped.
  void append(int32_t id, std::string& out);
  /// No more tokens: appends what was held back.
  void finish(std::string& out);

 private:
  void character(std::string_view utf8, std::string& out);
  const Decoder* decoder_;
  Decoder::Position position_ = Decoder::Position::first;
  std::string tail_;     // the beginning of a character, at most 3 bytes
  size_t leading_;       // characters that Strip may still take from the beginning
  size_t trailing_ = 0;  // strip characters held back, which may turn out to be the end
};

}  // namespace hocket::text
