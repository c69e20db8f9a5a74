#include "text/word_cache.h"

namespace hocket::text {

WordCache::Shard& WordCache::shard(std::string_view word) {
  // The maps use the low bits of the same hash; these are others.
  return shards_[std::hash<std::string_view>{}(word) >> 48 & (kShards - 1)];
}

bool WordCache::find(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() > kMaxWordBytes) return false;
  Shard& in = shard(word);
  const std::lock_guard lock(in.mutex);
  const auto found = in.by_word.find(word);
  if (found == in.by_word.end()) return false;
  in.recent.splice(in.recent.begin(), in.recent, found->second);
  ids.insert(ids.end(), found->second->ids.begin(), found->second->ids.end());
  return true;
}

void WordCache::insert(std::string_view word, const std::vector<int32_t>& ids, size_t first) {
  if (word.size() > kMaxWordBytes) return;
  Shard& in = shard(word);
  const std::lock_guard lock(in.mutex);
  if (in.by_word.contains(word)) return;  // another thread was faster
  if (in.recent.size() == kWordsPerShard) {
    in.by_word.erase(in.recent.back().word);
    in.recent.pop_back();
  }
  in.recent.push_front({std::string(word), {ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end()}});
  in.by_word.emplace(in.recent.front().word, in.recent.begin());
}

}  // namespace hocket::text
