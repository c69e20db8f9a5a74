#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <bit>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "base/error.h"

namespace hocket::kv {
namespace {

BlockHash content(int32_t id) { return chain({}, std::vector<int32_t>{id}); }

/// Hashes of the whole blocks of `tokens`.
std::vector<BlockHash> chained(std::span<const int32_t> tokens, size_t block) {
  std::vector<BlockHash> hashes;
  BlockHash parent;
  for (size_t i = 0; i + block <= tokens.size(); i += block) {
    hashes.push_back(parent = chain(parent, tokens.subspan(i, block)));
  }
  return hashes;
}

TEST(BlockHashes, DependOnEveryTokenOnOrderAndOnWhatIsBefore) {
  const std::vector<int32_t> tokens{5, 7, 7, 0};
  const BlockHash base = chain({}, tokens);
  EXPECT_EQ(base, chain({}, tokens));
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::vector<int32_t> other = tokens;
    other[i] ^= 1;
    EXPECT_NE(base, chain({}, other)) << i;
  }
  EXPECT_NE(base, chain({}, std::vector<int32_t>{7, 5, 7, 0}));
  EXPECT_NE(base, chain({}, std::vector<int32_t>{5, 7, 7}));
  EXPECT_NE(base, chain(base, tokens));
  EXPECT_NE(chain({1, 0}, tokens), chain({0, 1}, tokens));
}

TEST(BlockHashes, BothHalvesAreFreeOfCollisionsAndFlipHalfTheirBits) {
  std::set<uint64_t> high, low;
  int64_t flipped_high = 0, flipped_low = 0, total = 0;
  BlockHash previous;
  for (int32_t a = 0; a < 300; ++a) {  // neighbours, as token ids are
    for (int32_t b = 0; b < 300; ++b) {
      const BlockHash hash = chain({}, std::vector<int32_t>{a, b});
      high.insert(hash.high);
      low.insert(hash.low);
      flipped_high += std::popcount(hash.high ^ previous.high);
      flipped_low += std::popcount(hash.low ^ previous.low);
      previous = hash;
      ++total;
    }
  }
  EXPECT_EQ(static_cast<int64_t>(high.size()), total);
  EXPECT_EQ(static_cast<int64_t>(low.size()), total);
  EXPECT_NEAR(static_cast<double>(flipped_high) / static_cast<double>(total), 32, 0.1);
  EXPECT_NEAR(static_cast<double>(flipped_low) / static_cast<double>(total), 32, 0.1);
}

TEST(BlockPool, GivesAllOrNothing) {
  BlockPool pool(4, 16, Caching::on);
  EXPECT_EQ(pool.available(), 4);
  const auto three = pool.allocate(3);
  ASSERT_TRUE(three);
  EXPECT_EQ(std::set<int32_t>(three->begin(), three->end()).size(), 3U);
  EXPECT_FALSE(pool.allocate(2));
  EXPECT_EQ(pool.available(), 1);
  ASSERT_TRUE(pool.allocate(0));
  ASSERT_TRUE(pool.allocate(1));
  EXPECT_EQ(pool.available(), 0);
  EXPECT_TRUE(pool.allocate(0)->empty());
  pool.check();
}

TEST(BlockPool, FindsTheLongestLeadingRunAndSaysWhatIsPending) {
  BlockPool pool(8, 2, Caching::on);
  const std::vector<int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<BlockHash> hashes = chained(tokens, 2);
  const auto blocks = *pool.allocate(4);
  pool.announce(blocks[0], hashes[0], 5);
  pool.publish_announced();
  pool.announce(blocks[1], hashes[1], 6);
  pool.announce(blocks[3], hashes[3], 7);  // behind a gap
  const auto hits = pool.find(hashes);
  ASSERT_EQ(hits.size(), 2U);
  EXPECT_EQ(hits[0].block, blocks[0]);
  EXPECT_EQ(hits[0].pending_writer, -1);
  EXPECT_EQ(hits[1].block, blocks[1]);
  EXPECT_EQ(hits[1].pending_writer, 6);
  pool.drop_announced();
  EXPECT_EQ(pool.find(hashes).size(), 1U);
  pool.announce(blocks[1], hashes[1], 8);  // it may be tried again
  pool.publish_announced();
  EXPECT_EQ(pool.find(hashes)[1].pending_writer, -1);
  pool.check();
}

TEST(BlockPool, KeepsOneBlockWhenTwoAreFilledAlike) {
  BlockPool pool(4, 16, Caching::on);
  const auto blocks = *pool.allocate(3);
  pool.announce(blocks[0], content(1), 0);
  pool.announce(blocks[1], content(1), 1);
  pool.publish_announced();
  pool.announce(blocks[2], content(1), 2);
  pool.publish_announced();
  EXPECT_EQ(pool.find(std::vector{content(1)})[0].block, blocks[0]);
  for (const int32_t block : blocks) pool.release(block);
  EXPECT_EQ(pool.stats().cached, 1);
  pool.check();
}

TEST(BlockPool, CachedBlocksAreFoundUntilTheyAreEvictedLeastRecentlyUsedFirst) {
  BlockPool pool(3, 16, Caching::on);
  const auto blocks = *pool.allocate(3);
  for (int32_t i = 0; i < 3; ++i) pool.announce(blocks[i], content(i), i);
  pool.publish_announced();
  for (const int32_t block : blocks) pool.release(block);
  EXPECT_EQ(pool.stats().cached, 3);
  EXPECT_EQ(pool.available(), 3);
  pool.share(blocks[0]);  // used again: now the most recent
  pool.release(blocks[0]);
  EXPECT_EQ((*pool.allocate(1))[0], blocks[1]);
  EXPECT_TRUE(pool.find(std::vector{content(1)}).empty());
  EXPECT_EQ(pool.find(std::vector{content(0), content(2)}).size(), 2U);
  pool.release(blocks[1]);  // it came back without content: no hash, and first in line
  EXPECT_TRUE(pool.find(std::vector{content(1)}).empty());
  EXPECT_EQ((*pool.allocate(2)), (std::vector<int32_t>{blocks[1], blocks[2]}));
  EXPECT_EQ(pool.find(std::vector{content(0)}).size(), 1U);
  pool.check();
}

TEST(BlockPool, WithoutCachingFindsAndKeepsNothing) {
  BlockPool pool(2, 16, Caching::off);
  const auto blocks = *pool.allocate(1);
  pool.announce(blocks[0], content(1), 0);
  EXPECT_TRUE(pool.find(std::vector{content(1)}).empty());
  pool.publish_announced();
  EXPECT_TRUE(pool.find(std::vector{content(1)}).empty());
  pool.release(blocks[0]);
  EXPECT_EQ(pool.stats().cached, 0);
  pool.check();
}

TEST(BlockPool, RefusesMisuse) {
  EXPECT_THROW(BlockPool(0, 16, Caching::on), Error);
  EXPECT_THROW(BlockPool(4, 0, Caching::on), Error);
  BlockPool pool(4, 16, Caching::on);
  const auto blocks = *pool.allocate(2);
  EXPECT_THROW(pool.release(4), InvariantError);
  EXPECT_THROW(pool.release(-1), InvariantError);
  EXPECT_THROW(pool.share(3), InvariantError);    // free, without content
  EXPECT_THROW(pool.release(3), InvariantError);  // free
  EXPECT_THROW(pool.announce(3, content(1), 0), InvariantError);
  pool.announce(blocks[0], content(1), 0);
  EXPECT_THROW(pool.announce(blocks[0], content(2), 0), InvariantError);
  pool.publish_announced();
  EXPECT_THROW(pool.announce(blocks[0], content(2), 0), InvariantError);
  pool.check();
}

/// The pool again, slow and obvious: every question is answered by looking at all blocks.
struct Model {
  struct Block {
    int references = 0;
    int content = -1;     // id of what it holds or will hold
    int64_t writer = -1;  // while it is announced
  };
  std::vector<Block> blocks;
  std::deque<int32_t> order;  // free blocks, first to be given out in front

  explicit Model(int32_t count) : blocks(count) {
    for (int32_t i = 0; i < count; ++i) order.push_back(i);
  }
  int32_t holder(int content) const {
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].content == content) return static_cast<int32_t>(i);
    }
    return -1;
  }
  std::optional<std::vector<int32_t>> allocate(size_t count) {
    if (count > order.size()) return std::nullopt;
    std::vector<int32_t> taken(order.begin(), order.begin() + static_cast<int64_t>(count));
    order.erase(order.begin(), order.begin() + static_cast<int64_t>(count));
    for (const int32_t i : taken) blocks[i] = {.references = 1};
    return taken;
  }
  void share(int32_t i) {
    if (blocks[i].references++ == 0) std::erase(order, i);
  }
  void release(int32_t i) {
    if (--blocks[i].references > 0) return;
    if (blocks[i].writer >= 0) blocks[i].content = -1;
    blocks[i].writer = -1;
    blocks[i].content < 0 ? order.push_front(i) : order.push_back(i);
  }
  void announce(int32_t i, int content, int64_t writer) {
    if (holder(content) < 0) blocks[i].content = content, blocks[i].writer = writer;
  }
  void end_step(bool ok) {
    for (Block& block : blocks) {
      if (block.writer >= 0 && !ok) block.content = -1;
      block.writer = -1;
    }
  }
};

void expect_same(const BlockPool& pool, const Model& model, int contents) {
  PoolStats expected;
  for (const Model::Block& block : model.blocks) {
    (block.references > 0 ? expected.used : expected.free) += 1;
    expected.cached += block.references == 0 && block.content >= 0;
  }
  const PoolStats stats = pool.stats();
  ASSERT_EQ(stats.used, expected.used);
  ASSERT_EQ(stats.free, expected.free);
  ASSERT_EQ(stats.cached, expected.cached);
  for (int id = 0; id < contents; ++id) {
    const auto hits = pool.find(std::vector{content(id)});
    const int32_t holder = model.holder(id);
    ASSERT_EQ(hits.size(), holder < 0 ? 0U : 1U) << "content " << id;
    if (holder < 0) continue;
    ASSERT_EQ(hits[0].block, holder);
    ASSERT_EQ(hits[0].pending_writer, model.blocks[holder].writer);
  }
}

void run_against_model(uint64_t seed, int operations) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto below = [&](int64_t n) { return static_cast<int32_t>(random() % n); };
  const int32_t count = 1 + below(24);
  const int contents = 40;
  BlockPool pool(count, 4, Caching::on);
  Model model(count);
  std::map<int64_t, int> done;
  for (int i = 0; i < operations; ++i) {
    const int32_t block = below(count);
    const Model::Block& it = model.blocks[block];
    const int kind = below(100);
    if (kind < 20) {
      const int32_t wanted = below(4);
      ASSERT_EQ(pool.allocate(wanted), model.allocate(wanted));
    } else if (kind < 30) {
      if (it.references == 0 && it.content < 0) continue;
      pool.share(block), model.share(block);
    } else if (kind < 60) {
      if (it.references == 0) continue;
      pool.release(block), model.release(block);
    } else if (kind < 90) {
      if (it.references == 0 || it.content >= 0) continue;
      const int32_t id = below(contents), writer = below(9);
      pool.announce(block, content(id), writer), model.announce(block, id, writer);
    } else if (kind < 97) {
      pool.publish_announced(), model.end_step(true);
    } else {
      pool.drop_announced(), model.end_step(false);
    }
    ++done[kind];
    ASSERT_NO_THROW(pool.check()) << "operation " << i;
    expect_same(pool, model, contents);
    if (testing::Test::HasFatalFailure()) FAIL() << "operation " << i;
  }
  EXPECT_GT(done.size(), 90U);  // the walk did all kinds of things
}

TEST(BlockPool, BehavesLikeASlowModelOfItself) {
  for (uint64_t seed = 1; seed <= 20; ++seed) run_against_model(seed, 2000);
}

}  // namespace
}  // namespace hocket::kv
