// The `pre_tokenizer` of a tokenizer.json: cuts normalised text into the words that BPE works on.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"

namespace hocket::text {

struct Word {
  std::string_view text;
  bool at_start;  ///< begins where the whole text begins
};
/// The words of one stretch of text, and the memory that pre-tokenizers need. Not thread safe.
struct Words {
  std::vector<Word> list;
  std::deque<std::string> owned;  ///< texts that a step changed; stable addresses
  std::vector<Word> next;
  std::vector<Part> parts;
  MatchState match;
};

/// Immutable; may be used from any thread.
class PreTokenizer {
 public:
  enum class Behavior : uint8_t {
    isolated,
    removed,
    merged_with_previous,
    merged_with_next,
    contiguous
  };
  struct Split {
    Pattern pattern;
    Behavior behavior;
    bool invert;
  };
  struct ByteLevel {
    bool add_prefix_space;
    std::optional<Pattern> pattern;  ///< GPT-2's, with use_regex
  };
  struct Digits {
    bool individual;
  };
  struct Metaspace {
    enum class Prepend : uint8_t { always, first, never };
    std::string replacement;
    Pattern find_replacement;
    Prepend prepend;
    bool split;
  };
  using Step = std::variant<Split, ByteLevel, Digits, Metaspace>;

  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
  /// words.list on entry: the stretch as one word; on return: its words, none empty. See
  /// raw_bytes(). Throws Error (bad_input) if a pattern gives up.
  void apply(Words& words) const;
  /// Whether the last step is ByteLevel. Words are then left as the bytes they stand for, to save
  /// the way to characters and back.
  bool raw_bytes() const;

 private:
  std::vector<Step> steps_;
};

/// GPT-2's pattern. Source: openai/gpt-2, src/encoder.py.
Pattern gpt2_pattern();

}  // namespace hocket::text
