#include "text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace hocket::text {

namespace {

/// Turns the heap functions of the standard library into a queue with the lowest first.
bool later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.order > b.order;
}

}  // namespace

Bpe::Bpe(Vocabulary vocabulary, Merges merges, Options options)
    : vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)),
      options_(options),
      cache_(std::make_unique<WordCache>()) {
  for (size_t byte = 0; byte < 256; ++byte) {
    const char raw = static_cast<char>(byte);
    byte_ids_[byte] = vocabulary_.find(byte_level_characters({&raw, 1}));
    fallback_ids_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  }
  if (!options_.ignore_merges || !options_.raw_bytes) return;
  const TokenTable& tokens = vocabulary_.tokens();
  words_.reserve(static_cast<size_t>(tokens.size()));
  for (int32_t id = 0; id < tokens.size(); ++id) {
    if (!tokens.contains(id)) continue;
    if (const auto bytes = byte_level_bytes(tokens[id])) words_.add(id, *bytes);
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (options_.raw_bytes && word.size() == 1) {  // nothing to merge or to remember
    const int32_t id = byte_ids_[static_cast<unsigned char>(word[0])];
    if (id >= 0) return ids.push_back(id);
  }
  if (cache_->find(word, ids)) return;
  const size_t first = ids.size();
  const int32_t whole =
      options_.ignore_merges ? (options_.raw_bytes ? words_ : vocabulary_).find(word) : -1;
  if (whole >= 0) {
    ids.push_back(whole);
  } else {
    scratch.symbols.clear();
    add_symbols(word, scratch);
    merge(scratch);
    for (const Scratch::Symbol& symbol : scratch.symbols) {
      if (symbol.id >= 0) ids.push_back(symbol.id);
    }
  }
  cache_->insert(word, ids, first);
}

bool Bpe::fall_back(std::string_view character, Scratch& scratch) const {
  const auto id_of = [&](char byte) { return fallback_ids_[static_cast<unsigned char>(byte)]; };
  if (!options_.byte_fallback ||
      std::ranges::any_of(character, [&](char b) { return id_of(b) < 0; }))
    return false;
  for (const char byte : character) scratch.symbols.push_back({id_of(byte), 0, 0});
  return true;
}

// An unknown character waits until the next known one, so that a run of them can become one token.
void Bpe::add_symbols(std::string_view word, Scratch& scratch) const {
  bool unknown_waits = false;
  const auto flush = [&] {
    if (unknown_waits) scratch.symbols.push_back({options_.unknown, 0, 0});
    unknown_waits = false;
  };
  const auto unknown = [&](std::string_view character) {
    if (fall_back(character, scratch) || options_.unknown < 0) return;
    if (!options_.fuse_unknown) flush();
    unknown_waits = true;
  };
  for (size_t at = 0; at < word.size();) {
    const size_t length = options_.raw_bytes ? 1 : utf8_part(word.substr(at)).length;
    const std::string_view unit = word.substr(at, length);
    const int32_t id = options_.raw_bytes ? byte_ids_[static_cast<unsigned char>(unit[0])]
                                          : vocabulary_.find(unit);
    if (id >= 0) {
      flush();
      scratch.symbols.push_back({id, 0, 0});
    } else if (options_.raw_bytes) {
      unknown(byte_level_characters(unit));
    } else {
      unknown(unit);
    }
    at += length;
  }
  flush();
}

/// Puts the pair that begins at `position` into the heap if there is a merge for it.
void Bpe::offer(Scratch& scratch, int32_t position) const {
  const auto& symbols = scratch.symbols;
  const auto& left = symbols[static_cast<size_t>(position)];
  if (left.next < 0) return;
  const Merge* merge = merges_.find(merge_key(left.id, symbols[static_cast<size_t>(left.next)].id));
  if (merge == nullptr) return;
  scratch.heap.push_back(
      {uint64_t{merge->rank} << 32 | static_cast<uint32_t>(position), merge->id});
}

void Bpe::merge(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[static_cast<size_t>(i)].previous = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
  heap.clear();
  for (int32_t i = 0; i < count; ++i) offer(scratch, i);
  std::ranges::make_heap(heap, later);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, later);
    const Scratch::Candidate best = heap.back();
    heap.pop_back();
    const auto position = static_cast<int32_t>(best.order & 0xFFFFFFFF);
    auto& left = symbols[static_cast<size_t>(position)];
    if (left.id < 0 || left.next < 0) continue;
    auto& right = symbols[static_cast<size_t>(left.next)];
    const Merge* merge = merges_.find(merge_key(left.id, right.id));
    if (merge == nullptr || merge->id != best.id) continue;  // a neighbour changed since
    left.id = best.id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = position;
    for (const int32_t begin : {left.previous, position}) {
      if (begin < 0) continue;
      const size_t before = heap.size();
      offer(scratch, begin);
      if (heap.size() != before) std::ranges::push_heap(heap, later);
    }
  }
}

}  // namespace hocket::text
