// Turns generated ids into text piece by piece: never half a character, never part of a stop string.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace hocket::text {

/// One sequence's incremental decoder and stop-string matcher. The pieces concatenate to what decode() gives for the
/// whole sequence, cut at the earliest stop string. Not thread safe.
class Detokenizer {
 public:
  struct Options {
    std::vector<std::string> stop{};
    bool include_stop = false;
    SpecialTokens special = SpecialTokens::skip;
    int64_t min_tokens = 0;  ///< stop strings are not looked for before this many tokens
  };
  Detokenizer(const Tokenizer& tokenizer, Options options);
  struct Piece {
    std::string text;                       ///< safe to emit now
    std::optional<std::string> stopped_by;  ///< the stop string that ended the sequence
  };
  Piece append(int32_t id);
  /// The sequence ended: what was held back.
  std::string finish();

 private:
  std::string drain(bool final);
  const Tokenizer& tokenizer_;
  Options options_;
  std::string bytes_;    // undecoded tail: an incomplete character
  std::string pending_;  // decoded, held back because it may begin a stop string
  int64_t tokens_ = 0;
  bool done_ = false;
};

}  // namespace hocket::text
