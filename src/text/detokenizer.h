// Turns generated ids into text piece by piece: never half a character, never part of a stop
// string.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/decoder.h"
#include "text/tokenizer.h"

namespace hocket::text {

/// Finds the stop string that ends first; of those that end together, the longest. Reads each byte
/// once for each stop string (Knuth, Morris, Pratt 1977), so neither long stop strings nor long
/// outputs make it slow. Not thread safe.
class StopMatcher {
 public:
  /// Stop strings that are empty or ill-formed UTF-8 are ignored: no text contains the latter.
  explicit StopMatcher(const std::vector<std::string>& stops);
  /// The next byte of the text. Returns the stop string that ends with it.
  std::optional<std::string_view> next(char byte);
  /// Length of the longest end of the text so far that begins a stop string.
  size_t held() const;

 private:
  struct Stop {
    std::string text;
    std::vector<size_t>
        border;  // of each prefix: its longest proper end that is also its beginning
    size_t matched = 0;
  };
  std::vector<Stop> stops_;
};

/// One sequence's incremental decoder and stop-string matcher. The pieces concatenate to what
/// decode() gives for the whole sequence, cut at the earliest stop string. Not thread safe. The
/// tokenizer must outlive it.
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
  /// After a stop string: empty pieces. A stop string that began before `min_tokens` tokens counts
  /// if it ends later.
  Piece append(int32_t id);
  /// The sequence ended: what was held back.
  std::string finish();

 private:
  Piece release(std::string_view decoded);
  const Tokenizer* tokenizer_;
  Options options_;
  TextStream stream_;
  StopMatcher matcher_;
  std::string pending_;  // decoded; from begin_ on held back because it may begin a stop string
  size_t begin_ = 0;
  int64_t tokens_ = 0;
  bool done_ = false;
};

}  // namespace hocket::text
