// Remembers the ids of recent words. Text repeats its words, and merging one costs ten times a
// look-up.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::text {

/// Of the few places where a word can stand, the least recently used one is given up for a new
/// word. May be used from any thread: words are spread by hash over shards, each with its own
/// mutex, held for one look-up or one insertion, so that threads that encode at once seldom meet. A
/// cache per call would start cold on every request, and requests are short.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 64;
  static constexpr size_t kShards = 16;
  static constexpr size_t kSets = 512;
  static constexpr size_t kWays = 4;
  static constexpr size_t kWords = kShards * kSets * kWays;

  /// Appends the ids of `word` to `ids` if it is known.
  bool find(std::string_view word, std::vector<int32_t>& ids);
  /// Remembers ids[first..] for `word`, unless the word is longer than kMaxWordBytes.
  void insert(std::string_view word, const std::vector<int32_t>& ids, size_t first);

 private:
  struct Entry {
    size_t hash = 0;
    uint64_t used = 0;  // time of the last use; 0: empty
    std::string word;
    std::vector<int32_t> ids;
  };
  using Set = std::array<Entry, kWays>;
  struct Shard {
    std::mutex mutex;
    uint64_t time = 0;
    std::vector<Set> sets = std::vector<Set>(kSets);
  };
  Shard& shard(size_t hash) { return shards_[hash % kShards]; }
  static Set& set(Shard& in, size_t hash) { return in.sets[hash / kShards % kSets]; }
  std::array<Shard, kShards> shards_;
};

}  // namespace hocket::text
