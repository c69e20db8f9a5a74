// Tokenizer speed on this project's own prose and code: cutting with the patterns of known models,
// whole encoding, decoding, and the time to load a tokenizer.json as large as real ones. Usage:
// tokenizer_bench [source directory]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "text/byte_level.h"
#include "text/pattern.h"
#include "text/tokenizer.h"

namespace {

using namespace hocket::text;  // NOLINT(google-build-using-namespace)

/// Processor seconds of the fastest of some repetitions, after one that is not counted.
template <class Body>
double fastest(Body body) {
  const auto now = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  double best = 1e9, total = 0;
  body();
  for (int i = 0; i < 50 && (i < 5 || total < 1.0); ++i) {
    const double begin = now();
    body();
    const double seconds = now() - begin;
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

std::string read_all(const std::filesystem::path& folder,
                     std::initializer_list<std::string_view> extensions) {
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (std::ranges::find(extensions, extension) != extensions.end()) paths.insert(entry.path());
  }
  std::string all;
  for (const auto& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    all += text.view();
  }
  return all;
}

struct Named {
  const char* name;
  const char* pattern;
};
constexpr Named kPatterns[] = {
    {"qwen",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"o200k",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
     R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"deepseek-v3",
     R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)"
     R"(\s*[\r\n]+|\s+(?!\S)|\s+)"}};

/// A tokenizer.json with Qwen's pipeline and `tokens` tokens, each the merge of two others that
/// follow each other in `text` or, when those are used up, of two at random.
std::string large_tokenizer(const std::string& text, int tokens) {
  std::string vocab, merges;
  std::vector<std::string> all;
  std::set<std::string> seen;
  const auto json = [](const std::string& token) {
    std::string out;
    for (const char c : byte_level_characters(token)) {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(c);
    }
    return out;
  };
  const auto add = [&](const std::string& token) {
    if (token.size() > 16 || !seen.insert(token).second) return false;
    vocab += fmt::format("{}\"{}\": {}", all.empty() ? "" : ", ", json(token), all.size());
    all.push_back(token);
    return true;
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  std::mt19937 random(1);
  const auto merge = [&](const std::string& left, const std::string& right) {
    if (!add(left + right)) return;
    merges +=
        fmt::format("{}[\"{}\", \"{}\"]", merges.empty() ? "" : ", ", json(left), json(right));
  };
  for (size_t length = 1; length < 8; ++length) {
    for (size_t i = 0; i + length + 1 < text.size() && all.size() < static_cast<size_t>(tokens);
         i += 1 + random() % 64) {
      if (seen.contains(text.substr(i, length)))
        merge(text.substr(i, length), text.substr(i + length, 1));
    }
  }
  while (all.size() < static_cast<size_t>(tokens))
    merge(all[random() % all.size()], all[random() % all.size()]);
  return R"({"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split",
    "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
    "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {)" +
         vocab + R"(}, "merges": [)" + merges + "]}}";
}

void report(std::string_view what, std::string_view text, size_t bytes, double seconds) {
  fmt::print("{:<28} {:<6} {:8.1f} MB/s\n", what, text, static_cast<double>(bytes) / seconds / 1e6);
}

void measure(const Tokenizer& tokenizer, std::string_view name, std::string_view kind,
             const std::string& text) {
  std::vector<int32_t> ids;
  report(fmt::format("encode {}", name), kind, text.size(),
         fastest([&] { ids = tokenizer.encode(text).value(); }));
  report(fmt::format("decode {}", name), kind, text.size(),
         fastest([&] { tokenizer.decode(ids); }));
  fmt::print("{:<28} {:<6} {:8.2f} bytes a token\n", "", kind,
             static_cast<double>(text.size()) / static_cast<double>(ids.size()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path source = argc > 1 ? argv[1] : HOCKET_SOURCE_DIR;
  const std::string prose =
      read_all(source / "docs", {".md"}) + read_all(source / "test/data", {".jsonl"});
  const std::string code = read_all(source / "src", {".cc", ".h"});
  MatchState state;
  std::vector<Part> parts;
  const std::pair<const char*, const std::string*> kinds[] = {{"prose", &prose}, {"code", &code}};
  for (const auto& kind : kinds) {
    const std::string& text = *kind.second;
    fmt::print("{}: {} bytes\n", kind.first, text.size());
    for (const Named& named : kPatterns) {
      const Pattern pattern = Pattern::regex(named.pattern);
      report(fmt::format("cut {}", named.name), kind.first, text.size(),
             fastest([&] { pattern.split(text, state, parts); }));
    }
  }
  const std::string json = large_tokenizer(code + prose, 151'643);
  const double seconds = fastest([&] { Tokenizer::parse(json, "large").value(); });
  fmt::print("load {:.1f} MB, 151643 tokens: {:.0f} ms\n", static_cast<double>(json.size()) / 1e6,
             seconds * 1e3);
  const Tokenizer large = Tokenizer::parse(json, "large").value();
  const Tokenizer tiny = Tokenizer::load(source / "models/tiny-moe-fp8/tokenizer.json").value();
  for (const auto& [kind, text] : kinds) {
    measure(large, "large", kind, *text);
    measure(tiny, "tiny", kind, *text);
  }
  return 0;
}
