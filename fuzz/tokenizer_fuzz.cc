// Any bytes as a tokenizer.json, and any bytes as text for a fixed tokenizer: never a crash, a hang
// or lost text.
#include <cstdlib>

#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace {

using namespace hocket::text;  // NOLINT(google-build-using-namespace)

constexpr std::string_view kBytesOnly = R"json({"normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated",
       "pattern": {"Regex": "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
      {"type": "Metaspace", "replacement": "_"}]},
    "added_tokens": [{"id": 300, "content": "<x>", "lstrip": true, "normalized": false},
                     {"id": 301, "content": "<xx>", "rstrip": true, "special": true},
                     {"id": 302, "content": "é", "single_word": true}],
    "model": {"byte_fallback": true, "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "aa": 3, "_": 4, "_a": 5},
              "merges": ["a a", "_ a"]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": "_", "start": 1, "stop": 2}]}})json";

/// Ids that were encoded must decode alike, whole and streamed.
void round_trip(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text);
  if (!ids) return;
  const std::string whole = tokenizer.decode(*ids);
  Detokenizer stream(tokenizer, {.special = SpecialTokens::keep});
  std::string pieces;
  for (const int32_t id : *ids) {
    if (!tokenizer.known(id)) std::abort();
    pieces += stream.append(id).text;
  }
  pieces += stream.finish();
  if (pieces != whole) std::abort();
  if (!tokenizer.encode(whole)) std::abort();  // what decode() gives is well-formed
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = Tokenizer::parse(kBytesOnly, "fixed").value();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  round_trip(tokenizer, input);
  if (const auto parsed = Tokenizer::parse(input, "fuzz"))
    round_trip(*parsed, "The 3 dogs'  <x> ran;\n\n  \u00e9\u0301 aa_");
  return 0;
}
