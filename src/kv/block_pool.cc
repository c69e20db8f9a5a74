#include "kv/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace hocket::kv {
namespace {

/// Finaliser of splitmix64. Source: Steele, Lea, Flood 2014.
uint64_t mix_high(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// Finaliser of MurmurHash3. Source: Appleby, fmix64, public domain.
uint64_t mix_low(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD;
  x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53;
  return x ^ (x >> 33);
}

struct TableHash {
  size_t operator()(const BlockHash& hash) const { return hash.low; }
};

enum class Content : uint8_t { none, announced, published };

struct Block {
  int32_t references = 0;
  int32_t previous = 0, next = 0;  // free list, while there are no references
  Content content = Content::none;
  BlockHash hash;
  int64_t writer = -1;  // of announced content
};

}  // namespace

BlockHash chain(BlockHash parent, std::span<const int32_t> tokens) {
  // The size goes in first, so that a block and its beginning differ from the first step on.
  uint64_t high = mix_high(parent.high + 0x9E3779B97F4A7C15 * (tokens.size() + 1));
  uint64_t low = mix_low(parent.low ^ 0xD6E8FEB86659FD93 * (tokens.size() + 1));
  for (const int32_t token : tokens) {
    const uint64_t id = static_cast<uint32_t>(token);
    high = mix_high((high ^ id) + 0x9E3779B97F4A7C15);
    low = mix_low(low + id * 0xD6E8FEB86659FD93 + 1);
  }
  return {high, low};
}

struct BlockPool::State {
  int64_t block_size;
  Caching caching;
  std::vector<Block>
      blocks;  // one more than the pool has: the last is head and tail of the free list
  std::unordered_map<BlockHash, int32_t, TableHash> table;  // announced and published content
  std::vector<int32_t> announced;
  PoolStats stats;

  int32_t head() const { return static_cast<int32_t>(stats.total); }

  Block& at(int32_t block) {
    if (block < 0 || block >= stats.total) {
      throw InvariantError(fmt::format("KV block {} is not in 0..{}", block, stats.total - 1));
    }
    return blocks[block];
  }

  void link_before(int32_t block, int32_t successor) {
    const int32_t predecessor = blocks[successor].previous;
    blocks[block].previous = predecessor;
    blocks[block].next = successor;
    blocks[predecessor].next = block;
    blocks[successor].previous = block;
  }

  void unlink(int32_t block) {
    const Block& it = blocks[block];
    blocks[it.previous].next = it.next;
    blocks[it.next].previous = it.previous;
  }

  void forget(Block& block) {
    table.erase(block.hash);
    block.content = Content::none;
    block.hash = {};
    block.writer = -1;
  }

  /// Takes a block off the free list with its first reference.
  void use(int32_t block) {
    unlink(block);
    blocks[block].references = 1;
    --stats.free;
    ++stats.used;
    if (blocks[block].content == Content::published) --stats.cached;
  }

  void make_free(int32_t block) {
    --stats.used;
    ++stats.free;
    if (blocks[block].content == Content::published) {
      ++stats.cached;
      link_before(block, head());  // the last to be evicted
    } else {
      link_before(block, blocks[head()].next);  // the first to be given out
    }
  }

  void check_blocks() const;
  void check_free_list() const;
};

BlockPool::BlockPool(int64_t blocks, int64_t block_size, Caching caching)
    : state_(std::make_unique<State>()) {
  if (blocks < 1 || blocks >= INT32_MAX || block_size < 1) {
    throw Error(Code::config,
                fmt::format("a KV cache of {} blocks of {} tokens cannot work: both must be "
                            "at least 1",
                            blocks, block_size));
  }
  state_->block_size = block_size;
  state_->caching = caching;
  state_->stats.total = state_->stats.free = blocks;
  state_->blocks.resize(blocks + 1);
  state_->blocks[blocks].previous = state_->blocks[blocks].next = state_->head();
  for (int32_t block = 0; block < blocks; ++block) state_->link_before(block, state_->head());
}

BlockPool::~BlockPool() = default;

int64_t BlockPool::block_size() const { return state_->block_size; }
Caching BlockPool::caching() const { return state_->caching; }
int64_t BlockPool::available() const { return state_->stats.free; }
PoolStats BlockPool::stats() const { return state_->stats; }

std::optional<std::vector<int32_t>> BlockPool::allocate(int64_t count) {
  State& s = *state_;
  if (count > s.stats.free) return std::nullopt;
  std::vector<int32_t> taken;
  taken.reserve(std::max<int64_t>(count, 0));
  for (int64_t i = 0; i < count; ++i) {
    const int32_t block = s.blocks[s.head()].next;
    s.use(block);
    if (s.blocks[block].content != Content::none) s.forget(s.blocks[block]);
    taken.push_back(block);
  }
  return taken;
}

std::vector<PrefixHit> BlockPool::find(std::span<const BlockHash> hashes) const {
  std::vector<PrefixHit> hits;
  for (const BlockHash& hash : hashes) {
    const auto found = state_->table.find(hash);
    if (found == state_->table.end()) break;
    hits.push_back({found->second, state_->blocks[found->second].writer});
  }
  return hits;
}

void BlockPool::count_lookup(int64_t tokens, int64_t hits) {
  state_->stats.queries += tokens;
  state_->stats.hits += hits;
}

void BlockPool::share(int32_t block) {
  Block& it = state_->at(block);
  if (it.references > 0) {
    ++it.references;
  } else if (it.content == Content::published) {
    state_->use(block);
  } else {
    throw InvariantError(
        fmt::format("KV block {} is free and holds nothing: nothing to share", block));
  }
}

void BlockPool::release(int32_t block) {
  Block& it = state_->at(block);
  if (it.references == 0) throw InvariantError(fmt::format("KV block {} is free already", block));
  if (--it.references > 0) return;
  if (it.content == Content::announced) {  // whoever was to fill it is gone
    std::erase(state_->announced, block);
    state_->forget(it);
  }
  state_->make_free(block);
}

void BlockPool::announce(int32_t block, BlockHash hash, int64_t request) {
  Block& it = state_->at(block);
  if (it.references == 0 || it.content != Content::none) {
    throw InvariantError(fmt::format("KV block {} cannot be filled by request {}: it is {}", block,
                                     request, it.references == 0 ? "free" : "full or announced"));
  }
  if (state_->caching == Caching::off || !state_->table.try_emplace(hash, block).second) return;
  it.content = Content::announced;
  it.hash = hash;
  it.writer = request;
  state_->announced.push_back(block);
}

void BlockPool::publish_announced() {
  for (const int32_t block : state_->announced) {
    state_->blocks[block].content = Content::published;
    state_->blocks[block].writer = -1;
  }
  state_->announced.clear();
}

void BlockPool::drop_announced() {
  for (const int32_t block : state_->announced) state_->forget(state_->blocks[block]);
  state_->announced.clear();
}

void BlockPool::State::check_blocks() const {
  PoolStats seen;
  size_t contents = 0, pending = 0;
  for (int32_t i = 0; i < head(); ++i) {
    const Block& block = blocks[i];
    const bool is_pending = block.content == Content::announced;
    (block.references > 0 ? seen.used : seen.free) += 1;
    seen.cached += block.references == 0 && block.content == Content::published;
    pending += is_pending;
    contents += block.content != Content::none;
    if (block.references < 0 || (is_pending && block.references == 0) ||
        is_pending != (block.writer >= 0)) {
      throw InvariantError(fmt::format("KV block {}: {} references, content {}, writer {}", i,
                                       block.references, static_cast<int>(block.content),
                                       block.writer));
    }
    if (block.content == Content::none) continue;
    const auto found = table.find(block.hash);
    if (found == table.end() || found->second != i) {
      throw InvariantError(fmt::format("KV block {} has content that its hash does not find", i));
    }
  }
  if (seen.used != stats.used || seen.free != stats.free || seen.cached != stats.cached ||
      seen.used + seen.free != stats.total) {
    throw InvariantError(
        fmt::format("KV blocks used, free, cached: counted {}, {}, {}; kept {}, {}, {}", seen.used,
                    seen.free, seen.cached, stats.used, stats.free, stats.cached));
  }
  const auto is_announced = [this](int32_t i) { return blocks[i].content == Content::announced; };
  if (contents != table.size() || pending != announced.size() ||
      !std::all_of(announced.begin(), announced.end(), is_announced) ||
      (caching == Caching::off && contents > 0)) {
    throw InvariantError(fmt::format("KV hash table: {} entries for {} blocks, {} announced of {}",
                                     table.size(), contents, announced.size(), pending));
  }
}

void BlockPool::State::check_free_list() const {
  int64_t length = 0;
  bool cached = false;
  for (int32_t i = blocks[head()].next; i != head(); i = blocks[i].next) {
    const Block& block = blocks[i];
    const bool linked = blocks[block.next].previous == i && blocks[block.previous].next == i;
    const bool ordered = !cached || block.content == Content::published;
    cached = block.content == Content::published;
    if (block.references != 0 || !linked || !ordered || ++length > stats.free) {
      throw InvariantError(fmt::format("KV free list is broken at block {}, place {}", i, length));
    }
  }
  if (length != stats.free) {
    throw InvariantError(fmt::format("KV free list has {} of {} blocks", length, stats.free));
  }
}

void BlockPool::check() const {
  state_->check_blocks();
  state_->check_free_list();
}

}  // namespace hocket::kv
