#include "text/test_files.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>

namespace hocket::text::testing {

namespace {

std::vector<int32_t> ids(simdjson::dom::element node) {
  std::vector<int32_t> out;
  for (const auto id : node.get_array()) out.push_back(static_cast<int32_t>(int64_t{id}));
  return out;
}

std::vector<Case> cases(simdjson::dom::element list) {
  std::vector<Case> out;
  for (const simdjson::dom::element node : list.get_array()) {
    Case one;
    one.text = std::string(std::string_view(node["text"]));
    one.ids = ids(node["ids"]);
    simdjson::dom::element plain;
    one.ids_plain = node["ids_plain"].get(plain) == simdjson::SUCCESS ? ids(plain) : one.ids;
    one.decoded = std::string(std::string_view(node["decoded"]));
    one.decoded_skip_special = std::string(std::string_view(node["decoded_skip_special"]));
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

Tokenizer tiny_tokenizer() {
  return Tokenizer::load(HOCKET_SOURCE_DIR "/models/tiny-moe-fp8/tokenizer.json").value();
}

std::vector<Case> tiny_cases() {
  simdjson::dom::parser parser;
  return cases(parser.load(HOCKET_SOURCE_DIR "/test/data/tokenizer_cases.json").value());
}

std::vector<Extra> extra_files() {
  std::vector<Extra> out;
  for (const auto& file :
       std::filesystem::directory_iterator(HOCKET_SOURCE_DIR "/test/data/tokenizer_extra")) {
    simdjson::dom::parser parser;
    const simdjson::dom::element document = parser.load(file.path().string()).value();
    const simdjson::dom::element tokenizer = document["tokenizer"].value();
    out.push_back(
        {file.path().stem(), simdjson::minify(tokenizer), cases(document["cases"].value())});
  }
  std::ranges::sort(out, {}, &Extra::name);
  return out;
}

std::string small_json(std::string_view more, std::string_view merges,
                       std::string_view more_vocab) {
  return fmt::format(R"({{"version": "1.0", {}"model": {{"type": "BPE",
      "vocab": {{"a": 0, "b": 1, "c": 2{}}}, "merges": {}}}, "decoder": {{"type": "Fuse"}}}})",
                     more, more_vocab, merges);
}

}  // namespace hocket::text::testing
