// Finding and replacing with a literal or a regular expression of tokenizer.json.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

namespace hocket::text {

/// A stretch of a text that a pattern matched, or what lies between two matches.
struct Part {
  size_t begin;
  size_t end;
  bool is_match;
};

/// What matching writes to: one per call, for any number of patterns. Not thread safe.
class MatchState {
 public:
  MatchState();
  ~MatchState();
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

 private:
  friend class Pattern;
  void grow_stack();
  pcre2_real_match_data_8* data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_ = nullptr;
};

/// Immutable; may be used from any thread.
class Pattern {
 public:
  /// REQUIRES: text is not empty.
  static Pattern literal(std::string text);
  /// Oniguruma syntax. Throws Error (bad_input) if it does not compile or would mean something else
  /// here.
  static Pattern regex(std::string_view oniguruma);
  /// PCRE2 syntax, with UTF, UCP and MULTILINE. Throws Error (bad_input).
  static Pattern pcre2(const std::string& source);

  /// Fills `parts` with parts that cover `text` in order; matches may be empty, as Oniguruma finds
  /// them. REQUIRES: text is well-formed UTF-8. Throws Error (bad_input) if a match takes too many
  /// steps.
  void split(std::string_view text, MatchState& state, std::vector<Part>& parts) const;
  /// `text` with every match replaced by `content` as it stands.
  std::string replace_all(std::string_view text, std::string_view content, MatchState& state) const;
  /// Whether the pattern matches at the beginning of `text`.
  bool matches_prefix(std::string_view text, MatchState& state) const;

 private:
  struct Free {
    void operator()(pcre2_real_code_8* code) const;
  };
  struct Range {
    size_t begin;
    size_t end;
  };
  bool find(std::string_view text, size_t from, MatchState& state, Range& found) const;
  std::string literal_;                            // empty: a regular expression
  std::unique_ptr<pcre2_real_code_8, Free> code_;  // empty: a literal
  bool jit_ = false;
};

}  // namespace hocket::text
