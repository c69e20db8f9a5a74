#include "text/tokenizer.h"

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <unordered_map>

#include "text/loader.h"
#include "text/utf8.h"

namespace hocket::text {

struct Tokenizer::Impl {
  explicit Impl(TokenizerParts loaded) : parts(std::move(loaded)) {
    for (const AddedToken& token : parts.added) added_by_id.emplace(token.id, &token);
  }

  void encode(std::string_view text, std::vector<int32_t>& ids) const;
  void encode_stretch(std::string_view text, bool at_start, Words& words, Bpe::Scratch& scratch,
                      std::vector<int32_t>& ids) const;

  TokenizerParts parts;
  std::unordered_map<int32_t, const AddedToken*> added_by_id;
};

void Tokenizer::Impl::encode(std::string_view text, std::vector<int32_t>& ids) const {
  Words words;
  Bpe::Scratch scratch;
  MatchState state;
  parts.raw_tokens.split(text, state, [&](std::string_view raw, int32_t raw_id) {
    if (raw_id >= 0) return ids.push_back(raw_id);
    std::string storage;
    const std::string_view normal = parts.normalizer.apply(raw, storage, state);
    const bool first = raw.data() == text.data();
    parts.normalized_tokens.split(normal, state, [&](std::string_view stretch, int32_t id) {
      if (id >= 0) return ids.push_back(id);
      encode_stretch(stretch, first && stretch.data() == normal.data(), words, scratch, ids);
    });
  });
}

void Tokenizer::Impl::encode_stretch(std::string_view text, bool at_start, Words& words,
                                     Bpe::Scratch& scratch, std::vector<int32_t>& ids) const {
  words.list = {{text, at_start}};
  words.owned.clear();
  parts.pre_tokenizer.apply(words);
  for (const Word& word : words.list) parts.model.encode(word.text, scratch, ids);
}

Expected<Tokenizer> Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  std::ifstream file(tokenizer_json, std::ios::binary);
  if (!file)
    return fail(Code::missing, fmt::format("{} cannot be opened", tokenizer_json.string()));
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.view(), tokenizer_json.string());
}

Expected<Tokenizer> Tokenizer::parse(std::string_view json, std::string_view name) {
  try {
    return Tokenizer(std::make_unique<const Impl>(load_parts(json)));
  } catch (const Error& error) {
    return fail(error.code(), fmt::format("{}: {}", name, error.what()));
  }
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Expected<std::vector<int32_t>> Tokenizer::encode(std::string_view utf8, AddSpecial add) const {
  if (utf8.size() > std::numeric_limits<int32_t>::max() / 4) {
    return fail(Code::bad_input,
                fmt::format("the text has {} bytes, more than 512 MiB", utf8.size()));
  }
  const size_t bad = first_ill_formed(utf8);
  if (bad != std::string_view::npos) {
    return fail(Code::bad_input, fmt::format("the text is not UTF-8: byte {:#04x} at offset {}",
                                             static_cast<unsigned char>(utf8[bad]), bad));
  }
  std::vector<int32_t> ids;
  if (add == AddSpecial::on) ids = impl_->parts.surround.before;
  try {
    impl_->encode(utf8, ids);
  } catch (const Error& error) {  // a pattern gave up
    return fail(error.code(), error.what());
  }
  if (add == AddSpecial::on) {
    ids.insert(ids.end(), impl_->parts.surround.after.begin(), impl_->parts.surround.after.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  TextStream stream(decoder());
  std::string text;
  for (const int32_t id : ids) {
    if (special == SpecialTokens::skip && is_special(id)) continue;
    stream.append(id, text);
  }
  stream.finish(text);
  return text;
}

std::string_view Tokenizer::bytes(int32_t id) const {
  return decoder().bytes(id, Decoder::Position::later);
}

bool Tokenizer::is_special(int32_t id) const {
  const auto found = impl_->added_by_id.find(id);
  return found != impl_->added_by_id.end() && found->second->special;
}

bool Tokenizer::known(int32_t id) const { return decoder().known(id); }

int32_t Tokenizer::size() const { return decoder().size(); }

int32_t Tokenizer::id_of(std::string_view content) const {
  for (const AddedToken& token : impl_->parts.added) {
    if (token.content == content) return token.id;
  }
  return impl_->parts.model.vocabulary().find(content);
}

const Decoder& Tokenizer::decoder() const { return impl_->parts.decoder; }

}  // namespace hocket::text
