// The `model` of a tokenizer.json: byte-pair encoding of one word.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/flat_map.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

namespace hocket::text {

/// Immutable but for its cache of words; may be used from any thread.
/// Source: Sennrich et al. 2016; the order of merges as in `tokenizers`: lowest rank first, then
/// leftmost.
class Bpe {
 public:
  struct Options {
    int32_t unknown = -1;  ///< id for characters that the vocabulary lacks; -1: they vanish
    bool fuse_unknown = false;
    bool byte_fallback = false;
    bool ignore_merges = false;  ///< a word that is in the vocabulary is one token
    bool raw_bytes = false;  ///< words are bytes; the vocabulary has GPT-2's characters for them
  };
  struct Merge {
    uint32_t rank;
    int32_t id;  ///< of the merged token
  };
  using Merges = FlatMap<Merge>;
  static uint64_t merge_key(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  Bpe(Vocabulary vocabulary, Merges merges, Options options);

  /// Working memory of encode(): one per call, reused from word to word.
  struct Scratch {
    struct Symbol {
      int32_t id;  ///< -1: merged into its left neighbour
      int32_t previous;
      int32_t next;
    };
    struct Candidate {
      uint64_t order;  ///< rank, then position
      int32_t id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };
  /// Appends the ids of `word`, in time O(n log n). REQUIRES: fewer than 2^31 bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  void add_symbols(std::string_view word, Scratch& scratch) const;
  void merge(Scratch& scratch) const;
  void offer(Scratch& scratch, int32_t position) const;
  bool fall_back(std::string_view character, Scratch& scratch) const;

  Vocabulary vocabulary_;
  Vocabulary words_;  // whole words as bytes, for ignore_merges with raw_bytes
  Merges merges_;
  Options options_;
  std::array<int32_t, 256> byte_ids_{};  // with raw_bytes: id of the character of each byte, or -1
  std::array<int32_t, 256> fallback_ids_{};  // id of <0x00> ... <0xFF>, or -1
  std::unique_ptr<WordCache> cache_;         // behind a pointer: mutexes do not move
};

}  // namespace hocket::text
