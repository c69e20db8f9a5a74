#include "text/word_cache.h"

#include <algorithm>
#include <functional>

namespace hocket::text {

bool WordCache::find(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() > kMaxWordBytes) return false;
  const size_t hash = std::hash<std::string_view>{}(word);
  Shard& in = shard(hash);
  const std::lock_guard lock(in.mutex);
  for (Entry& entry : set(in, hash)) {
    if (entry.hash != hash || entry.used == 0 || entry.word != word) continue;
    entry.used = ++in.time;
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.end());
    return true;
  }
  return false;
}

void WordCache::insert(std::string_view word, const std::vector<int32_t>& ids, size_t first) {
  if (word.size() > kMaxWordBytes) return;
  const size_t hash = std::hash<std::string_view>{}(word);
  Shard& in = shard(hash);
  const std::lock_guard lock(in.mutex);
  Set& places = set(in, hash);
  if (std::ranges::any_of(places, [&](const Entry& e) { return e.used > 0 && e.word == word; })) {
    return;  // another thread was faster
  }
  Entry& entry = *std::ranges::min_element(places, {}, &Entry::used);
  entry.hash = hash;
  entry.used = ++in.time;
  entry.word = word;
  entry.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
}

}  // namespace hocket::text
