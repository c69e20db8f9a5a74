#include "text/vocabulary.h"

#include <functional>

namespace hocket::text {

namespace {

size_t hash_of(std::string_view content) { return std::hash<std::string_view>{}(content); }
uint32_t tag_of(size_t hash) { return static_cast<uint32_t>(hash >> 32); }

}  // namespace

void TokenTable::set(int32_t id, std::string_view content) {
  if (id >= size()) slots_.resize(static_cast<size_t>(id) + 1);
  slots_[static_cast<size_t>(id)] = {text_.size(), static_cast<int64_t>(content.size())};
  text_ += content;
}

bool TokenTable::contains(int32_t id) const {
  return id >= 0 && id < size() && slots_[static_cast<size_t>(id)].length >= 0;
}

std::string_view TokenTable::operator[](int32_t id) const {
  if (!contains(id)) return {};
  const Slot& slot = slots_[static_cast<size_t>(id)];
  return std::string_view(text_).substr(slot.begin, static_cast<size_t>(slot.length));
}

void Vocabulary::reserve(size_t tokens) {
  size_t wanted = 16;
  while (wanted < tokens * 2) wanted *= 2;
  if (wanted <= slots_.size()) return;
  slots_.assign(wanted, {});
  for (int32_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_.contains(id)) continue;
    const size_t hash = hash_of(tokens_[id]);
    slots_[locate(tokens_[id], hash)] = {tag_of(hash), id};
  }
}

size_t Vocabulary::locate(std::string_view content, size_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].id >= 0 && (slots_[i].tag != tag_of(hash) || tokens_[slots_[i].id] != content))
    i = (i + 1) & mask;
  return i;
}

Vocabulary::Added Vocabulary::add(int32_t id, std::string_view content) {
  if (tokens_.contains(id)) return Added::id_taken;
  reserve(count_ + 1);
  const size_t hash = hash_of(content);
  Slot& slot = slots_[locate(content, hash)];
  if (slot.id >= 0) return Added::content_taken;
  tokens_.set(id, content);
  slot = {tag_of(hash), id};
  ++count_;
  return Added::yes;
}

int32_t Vocabulary::find(std::string_view content) const {
  return slots_.empty() ? -1 : slots_[locate(content, hash_of(content))].id;
}

}  // namespace hocket::text
