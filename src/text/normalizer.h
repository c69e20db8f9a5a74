// The `normalizer` of a tokenizer.json: what happens to text before it is cut into words.
#pragma once
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/pattern.h"

namespace hocket::text {

/// Canonical composition (NFC), in time O(n log n) whatever the text. REQUIRES: text is well-formed
/// UTF-8.
std::string nfc(std::string_view text);

/// Immutable; may be used from any thread.
class Normalizer {
 public:
  struct Nfc {};
  struct Prepend {
    std::string text;  ///< put before every text that is not empty
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };
  using Step = std::variant<Nfc, Prepend, Replace>;

  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
  /// The normalised text: `text` itself where nothing changes, otherwise a view of `storage`.
  std::string_view apply(std::string_view text, std::string& storage, MatchState& state) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace hocket::text
