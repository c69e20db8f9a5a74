// Remembers the ids of recent words. Text repeats its words; merging one costs ten times a look-up.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hocket::text {

/// Least recently used words go first. May be used from any thread: words are spread over shards by hash, each with
/// its own mutex, held for one look-up or one insertion, so that threads that encode at once seldom meet. A cache per
/// call would start cold on every request, and requests are short.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 64;
  static constexpr size_t kShards = 16;
  static constexpr size_t kWordsPerShard = 2048;

  /// Appends the ids of `word` to `ids` if it is known.
  bool find(std::string_view word, std::vector<int32_t>& ids);
  /// Remembers ids[first..] for `word`, unless the word is longer than kMaxWordBytes.
  void insert(std::string_view word, const std::vector<int32_t>& ids, size_t first);

 private:
  struct Entry {
    std::string word;
    std::vector<int32_t> ids;
  };
  struct Shard {
    std::mutex mutex;
    std::list<Entry> recent;  // most recent first
    std::unordered_map<std::string_view, std::list<Entry>::iterator> by_word;
  };
  Shard& shard(std::string_view word);
  std::array<Shard, kShards> shards_;
};

}  // namespace hocket::text
