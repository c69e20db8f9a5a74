// Which KV blocks are free, in use or cached, and which cached blocks hold a given prefix. Pure bookkeeping on the host:
// block numbers only, no memory.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace hocket::kv {

/// Content of a full block: a hash of its tokens and of everything before them, 128 bits so that collisions do not count.
struct BlockHash {
  uint64_t high = 0, low = 0;
  bool operator==(const BlockHash&) const = default;
};
/// Hash of the block `tokens` behind a prefix whose last block hashed to `parent` ({} at the start). The same in every
/// process and on every machine. Not meant to withstand somebody who constructs collisions.
BlockHash chain(BlockHash parent, std::span<const int32_t> tokens);

struct PoolStats {
  int64_t total = 0, free = 0, cached = 0, used = 0;  ///< cached blocks are free too: they can be evicted
  int64_t queries = 0, hits = 0;                      ///< prefix cache, in tokens
};

/// A block found by a prefix look-up. `pending_writer` is the request that fills it in the step being planned; -1 when
/// its content exists.
struct PrefixHit {
  int32_t block = -1;
  int64_t pending_writer = -1;
};

enum class Caching : uint8_t { off, on };

/// Reference counts, free list (blocks without content first, then the least recently used cached one), hash table.
/// Calls that break a REQUIRES or name a block that does not exist throw InvariantError. One thread.
class BlockPool {
 public:
  BlockPool(int64_t blocks, int64_t block_size, Caching caching);
  ~BlockPool();
  int64_t block_size() const;
  Caching caching() const;
  int64_t available() const;  ///< blocks that allocate() can give, evictable ones included
  /// Takes `count` blocks (reference count 1 each), or none at all: nullopt.
  std::optional<std::vector<int32_t>> allocate(int64_t count);
  /// Longest run of leading blocks whose hashes are known, from `hashes`. Takes no reference and counts nothing: a request
  /// that waits for room is looked up at every step.
  std::vector<PrefixHit> find(std::span<const BlockHash> hashes) const;
  void count_lookup(int64_t tokens, int64_t hits);  ///< for stats(): a request took `hits` of its `tokens` from the cache
  void share(int32_t block);                        ///< one more reference; un-frees a cached block
  void release(int32_t block);  ///< one less; at zero it is free, and stays cached if published
  /// The step being planned will fill `block` with this content for `request`: visible to find() as pending. Nothing
  /// happens if another block holds or will hold the same content. REQUIRES: `block` is in use and has no content yet;
  /// its writer keeps it until the step ends.
  void announce(int32_t block, BlockHash hash, int64_t request);
  void publish_announced();  ///< the step succeeded: announced blocks are ordinary cached blocks
  void drop_announced();     ///< the step failed: nothing of it is ever hit
  PoolStats stats() const;
  /// Throws InvariantError when counts do not add up. For tests and debug builds.
  void check() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hocket::kv
