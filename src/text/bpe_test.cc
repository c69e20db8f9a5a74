#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <string>

namespace hocket::text {
namespace {

struct Model {
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
};

/// A random model over a, b, c, d whose merges build on each other.
Model random_model(std::mt19937& random) {
  Model model{{"a", "b", "c", "d"}, {}};
  for (int i = 0; i < 40; ++i) {
    const std::string left = model.tokens[random() % model.tokens.size()];
    const std::string right = model.tokens[random() % model.tokens.size()];
    if (std::ranges::find(model.tokens, left + right) != model.tokens.end()) continue;
    model.tokens.push_back(left + right);
    model.merges.emplace_back(left, right);
  }
  return model;
}

Bpe build(const Model& model, Bpe::Options options = {}) {
  Vocabulary vocabulary;
  for (const std::string& token : model.tokens) vocabulary.add(vocabulary.tokens().size(), token);
  Bpe::Merges merges;
  for (uint32_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& [left, right] = model.merges[rank];
    merges[Bpe::merge_key(vocabulary.find(left), vocabulary.find(right))] = {
        rank, vocabulary.find(left + right)};
  }
  return Bpe(std::move(vocabulary), std::move(merges), options);
}

/// The definition: again and again, merge the leftmost pair of the lowest rank.
std::vector<std::string> by_definition(const Model& model, const std::string& word) {
  std::map<std::pair<std::string, std::string>, size_t> rank;
  for (size_t i = 0; i < model.merges.size(); ++i) rank[model.merges[i]] = i;
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  while (true) {
    std::optional<size_t> best;
    size_t best_rank = model.merges.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = rank.find({symbols[i], symbols[i + 1]});
      if (found == rank.end() || found->second >= best_rank) continue;
      best = i;
      best_rank = found->second;
    }
    if (!best) return symbols;
    symbols[*best] += symbols[*best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
  }
}

std::vector<std::string> encode(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  std::vector<int32_t> ids;
  bpe.encode(word, scratch, ids);
  std::vector<std::string> out;
  for (const int32_t id : ids) out.emplace_back(bpe.vocabulary().tokens()[id]);
  return out;
}

TEST(Bpe, MergesAsDefined) {
  const unsigned seed = 99;
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    const Model model = random_model(random);
    const Bpe bpe = build(model);
    for (int i = 0; i < 60; ++i) {
      std::string word;
      for (size_t j = 1 + random() % 30; j > 0; --j)
        word.push_back(static_cast<char>('a' + random() % 4));
      const auto expected = by_definition(model, word);
      ASSERT_EQ(encode(bpe, word), expected)
          << "seed " << seed << " round " << round << " word " << word;
      ASSERT_EQ(encode(bpe, word), expected) << "from the cache: " << word;
    }
  }
}

TEST(Bpe, TakesWholeWordsFirstWithIgnoreMerges) {
  const Model model{{"a", "b", "c", "abc", "bc"}, {{"b", "c"}}};
  EXPECT_EQ(encode(build(model), "abc"), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(encode(build(model, {.ignore_merges = true}), "abc"),
            (std::vector<std::string>{"abc"}));
  EXPECT_EQ(encode(build(model, {.ignore_merges = true, .raw_bytes = true}), "abc"),
            (std::vector<std::string>{"abc"}));
}

TEST(Bpe, HandlesUnknownCharacters) {
  const Model model{{"a", "?", "<0xC3>", "<0xA9>"}, {}};
  using Tokens = std::vector<std::string>;
  EXPECT_EQ(encode(build(model), "axya"), (Tokens{"a", "a"}));
  EXPECT_EQ(encode(build(model, {.unknown = 1}), "axyaz"), (Tokens{"a", "?", "?", "a", "?"}));
  EXPECT_EQ(encode(build(model, {.unknown = 1, .fuse_unknown = true}), "axyaz"),
            (Tokens{"a", "?", "a", "?"}));
  EXPECT_EQ(encode(build(model, {.unknown = 1, .byte_fallback = true}), "éü"),
            (Tokens{"<0xC3>", "<0xA9>", "?"}));
}

// 3000 equal letters, and 300 times as many: work must grow with n log n.
TEST(Bpe, LongWordsAreNotQuadratic) {
  Model model{{"a"}, {}};
  for (int i = 0; i < 5; ++i) {
    const std::string half = model.tokens.back();
    model.merges.emplace_back(half, half);
    model.tokens.push_back(half + half);
  }
  const Bpe bpe = build(model);
  EXPECT_EQ(encode(bpe, std::string(3000, 'a')).size(), 95u);  // 93 of 32, then 16 and 8
  EXPECT_EQ(encode(bpe, std::string(240'000, 'a')).size(), 7'500u);
}

TEST(WordCache, ForgetsTheLeastRecentlyUsed) {
  WordCache cache;
  std::vector<int32_t> ids;
  const auto word = [](size_t i) { return "word" + std::to_string(i); };
  const size_t many = WordCache::kWords * 4;
  for (size_t i = 0; i < many; ++i) {
    ids = {static_cast<int32_t>(i)};
    cache.insert(word(i), ids, 0);
    ids.clear();
    ASSERT_TRUE(cache.find(word(0), ids)) << "used all the time, so kept";
  }
  size_t kept = 0;
  for (size_t i = 0; i < many; ++i) {
    ids.clear();
    if (!cache.find(word(i), ids)) continue;
    ++kept;
    ASSERT_EQ(ids, std::vector<int32_t>{static_cast<int32_t>(i)});
  }
  EXPECT_LE(kept, WordCache::kWords);
  EXPECT_GT(kept, WordCache::kWords / 2);
}

TEST(WordCache, IgnoresLongWords) {
  WordCache cache;
  const std::string word(WordCache::kMaxWordBytes + 1, 'a');
  std::vector<int32_t> ids = {1};
  cache.insert(word, ids, 0);
  EXPECT_FALSE(cache.find(word, ids));
}

TEST(Vocabulary, RefusesDuplicates) {
  Vocabulary vocabulary;
  EXPECT_EQ(vocabulary.add(3, "x"), Vocabulary::Added::yes);
  EXPECT_EQ(vocabulary.add(3, "y"), Vocabulary::Added::id_taken);
  EXPECT_EQ(vocabulary.add(4, "x"), Vocabulary::Added::content_taken);
  EXPECT_EQ(vocabulary.find("x"), 3);
  EXPECT_EQ(vocabulary.find("y"), -1);
  EXPECT_EQ(vocabulary.tokens().size(), 4);
}

}  // namespace
}  // namespace hocket::text
