// Tokens that are found in the text before anything else is done to it, such as <|im_start|>.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "text/flat_map.h"
#include "text/pattern.h"

namespace hocket::text {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool single_word = false;  ///< not inside a word
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space behind it along
  bool normalized = true;    ///< looked for in normalised text
  bool special = false;
};

/// Finds tokens in a text: leftmost first, then the longest. Immutable; may be used from any
/// thread.
class AddedTokenFinder {
 public:
  AddedTokenFinder();
  /// Looks for `spelling` where it stands for `token`. Throws Error (bad_input) if it is empty or
  /// taken.
  void add(const AddedToken& token, std::string_view spelling);
  /// In order: stretch("", id) for each token found, stretch(text, -1) for what lies between them.
  /// Same cuts as `tokenizers`: a token that single_word rejects still hides the tokens that begin
  /// inside it.
  void split(std::string_view text, MatchState& state,
             FunctionRef<void(std::string_view, int32_t)> stretch) const;

 private:
  struct Match {
    size_t begin;
    size_t end;
    const AddedToken* token;
  };
  std::optional<Match> find(std::string_view text, size_t from) const;
  bool inside_word(std::string_view text, const Match& match, MatchState& state) const;

  std::vector<AddedToken> tokens_;
  std::vector<int32_t>
      token_at_;            // node of the trie -> index in tokens_, or -1; node 0 is the root
  FlatMap<int32_t> edges_;  // (node, byte) -> node
  std::array<bool, 256> can_begin_{};
  Pattern word_character_;
};

}  // namespace hocket::text
