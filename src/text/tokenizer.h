// Text to token ids and back, as the `tokenizers` library does it for a tokenizer.json with
// byte-level BPE.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace hocket::text {

class Decoder;

enum class SpecialTokens : uint8_t { keep, skip };

/// Immutable after loading; encode() and decode() may be called from any thread.
class Tokenizer {
 public:
  /// Fails (missing, bad_input) naming the file and the part that is unknown or broken.
  static Expected<Tokenizer> load(const std::filesystem::path& tokenizer_json);
  static Expected<Tokenizer> parse(std::string_view json, std::string_view name);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Whether the post-processor adds BOS and the like.
  enum class AddSpecial : uint8_t { off, on };
  /// Fails (bad_input) on ill-formed UTF-8, naming the byte offset, on a text of more than 512 MiB,
  /// and where a pattern needs more steps than any sensible one.
  Expected<std::vector<int32_t>> encode(std::string_view utf8,
                                        AddSpecial add = AddSpecial::on) const;
  /// Ill-formed bytes become U+FFFD per maximal ill-formed part; unknown ids are skipped.
  std::string decode(std::span<const int32_t> ids,
                     SpecialTokens special = SpecialTokens::keep) const;
  /// Raw bytes of one id as the decoder emits them behind other tokens; empty for unknown ids. (At
  /// the beginning of a text, Metaspace and Strip may drop a space.)
  std::string_view bytes(int32_t id) const;
  bool is_special(int32_t id) const;
  bool known(int32_t id) const;
  int32_t size() const;  ///< largest id + 1
  /// Id of an added token or vocabulary entry by its content; -1 if there is none.
  int32_t id_of(std::string_view content) const;
  /// For incremental decoding. Lives as long as the tokenizer, wherever that is moved.
  const Decoder& decoder() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace hocket::text
