#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "device/cpu/cpu_device.h"
#include "device/cpu/seeded.h"
#include "ops/attention_testing.h"

namespace hocket::ops {
namespace {

using device::cpu::CpuDevice;
using device::cpu::SeededDevice;
using quant::Bf16;
using testing::PagedWorld;
using Part = PagedWorld::Part;
using Rows = PagedWorld::Rows;

std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa <= best_isa()) all.push_back(isa);
  }
  return all;
}

Rows attend(PagedWorld& world, const std::vector<Part>& parts, Isa isa = best_isa(),
            uint64_t seed = 1) {
  SeededDevice device(seed, isa);
  const auto stream = device.make_stream("compute");
  return world.attend(*stream, parts);
}

/// Every row of `some` has the bits that it has in `all`.
void expect_same(const Rows& some, const Rows& all, const std::string& what) {
  for (const auto& [at, bits] : some) {
    ASSERT_EQ(bits, all.at(at)) << what << ": sequence " << at.first << ", position " << at.second;
  }
}

/// The parts that compute `length` tokens of a sequence `chunk` at a time.
std::vector<Part> chunks(int sequence, int64_t length, int64_t chunk) {
  std::vector<Part> parts;
  for (int64_t p = 0; p < length; p += chunk)
    parts.push_back({sequence, p, std::min(chunk, length - p)});
  return parts;
}

/// Compares the rows with softmax attention in f64.
void expect_attention(const PagedWorld& world, const Rows& rows) {
  const auto& sizes = world.sizes();
  const double scale = 1 / std::sqrt(static_cast<double>(sizes.head_dim));
  for (const auto& [at, bits] : rows) {
    const auto [sequence, position] = at;
    for (int h = 0; h < sizes.heads; ++h) {
      const int kv_head = h / (sizes.heads / sizes.kv_heads);
      const float* q = world.q(sequence, position) + h * sizes.head_dim;
      std::vector<double> scores;
      double most = -1e300, largest_sum = 0;
      for (int64_t j = 0; j <= position; ++j) {
        double score = 0, sum = 0;
        for (int d = 0; d < sizes.head_dim; ++d) {
          const double product = static_cast<double>(q[d]) * world.k(sequence, j, kv_head)[d];
          score += product;
          sum += std::abs(product);
        }
        scores.push_back(score * scale);
        most = std::max(most, scores.back());
        largest_sum = std::max(largest_sum, sum * scale);
      }
      double total = 0;
      for (double& score : scores) total += score = std::exp(score - most);
      // A score is off by at most head_dim + 3 roundings of its summands; exp adds 1.1 * 2^-23;
      // sums over j as below.
      const double relative = 2 * ((sizes.head_dim + 3) * 0x1p-24 * largest_sum + 0x1.2p-23) +
                              (2 * static_cast<double>(position) / 16 + 40) * 0x1p-24;
      for (int d = 0; d < sizes.head_dim; ++d) {
        double expected = 0, size = 0;
        for (int64_t j = 0; j <= position; ++j) {
          const double term =
              scores[static_cast<size_t>(j)] * world.v(sequence, j, kv_head)[d] / total;
          expected += term;
          size += std::abs(term);
        }
        const double summing = std::min<double>(static_cast<double>(position), 256) * 0x1p-24;
        const float got = quant::to_float(Bf16{bits[static_cast<size_t>(h * sizes.head_dim + d)]});
        ASSERT_NEAR(got, expected, std::abs(expected) * 0x1p-8 + size * (relative + summing))
            << "sequence " << sequence << ", position " << position << ", head " << h << ", d "
            << d;
      }
    }
  }
}

struct Case {
  PagedWorld::Sizes sizes;
  int64_t length;
};
const Case kCases[] = {
    {{.heads = 4, .kv_heads = 4, .head_dim = 16, .block_size = 16}, 70},
    {{.heads = 8, .kv_heads = 2, .head_dim = 64, .block_size = 16}, 300},
    {{.heads = 8, .kv_heads = 1, .head_dim = 32, .block_size = 32}, 270},
    {{.heads = 2, .kv_heads = 2, .head_dim = 128, .block_size = 48}, 260},
    {{.heads = 12, .kv_heads = 4, .head_dim = 80, .block_size = 16}, 40},
};

TEST(Attention, IsSoftmaxAttentionInEveryShape) {
  for (const Case& c : kCases) {
    PagedWorld world(c.sizes, {c.length}, 5);
    expect_attention(world, attend(world, {{0, 0, c.length}}));
  }
}

TEST(Attention, EveryInstructionSetGivesTheBitsOfGeneric) {
  if (best_isa() < Isa::avx512)
    std::puts("this processor has no AVX-512: its kernels are compiled, not run");
  for (const Case& c : kCases) {
    PagedWorld world(c.sizes, {c.length, 17}, 5);
    const std::vector<Part> parts{{0, 0, c.length}, {1, 16, 1}, {1, 3, 9}};
    const Rows generic = attend(world, parts, Isa::generic);
    for (Isa isa : isas()) expect_same(attend(world, parts, isa), generic, std::string(name(isa)));
  }
}

TEST(Attention, DecodeAndEveryChunkingGiveTheBitsOfTheWholePrompt) {
  for (int64_t length : {1, 15, 16, 17, 255, 256, 257, 512, 515}) {
    PagedWorld world({.heads = 4, .kv_heads = 1, .head_dim = 16, .block_size = 16}, {length}, 5);
    const Rows whole = attend(world, {{0, 0, length}});
    for (int64_t chunk : {1, 2, 5, 7, 16, 64, 100, 256}) {
      for (const Part& part : chunks(0, length, chunk)) {
        expect_same(attend(world, {part}), whole, "alone, chunk " + std::to_string(chunk));
      }
      expect_same(attend(world, chunks(0, length, chunk)), whole,
                  "in one call, chunk " + std::to_string(chunk));
    }
  }
}

TEST(Attention, EveryCutOfABatchGivesTheBitsOfTheWhole) {
  PagedWorld world({.heads = 8, .kv_heads = 2, .head_dim = 32, .block_size = 16}, {300, 40, 261, 9},
                   5);
  const std::vector<Part> batch{{0, 299, 1}, {1, 30, 10}, {2, 240, 21}, {3, 0, 9}};
  const Rows whole = attend(world, batch);
  int64_t tokens = 0;
  for (const Part& part : batch) tokens += part.queries;
  for (int64_t cut = 0; cut <= tokens; ++cut) {
    std::vector<Part> first, second;
    int64_t before = 0;
    for (const Part& part : batch) {
      const int64_t here = std::clamp<int64_t>(cut - before, 0, part.queries);
      if (here > 0) first.push_back({part.sequence, part.computed, here});
      if (here < part.queries)
        second.push_back({part.sequence, part.computed + here, part.queries - here});
      before += part.queries;
    }
    const uint64_t seed = static_cast<uint64_t>(cut) + 1;
    expect_same(attend(world, first, best_isa(), seed), whole,
                "first part of cut " + std::to_string(cut));
    expect_same(attend(world, second, best_isa(), seed), whole,
                "second part of cut " + std::to_string(cut));
  }
}

TEST(Attention, NeitherBlocksNorNeighboursNorBlockSizeChangeABit) {
  PagedWorld world({.heads = 4, .kv_heads = 2, .head_dim = 32, .block_size = 16}, {290, 33}, 5);
  const Rows expected = attend(world, {{0, 250, 40}});
  for (uint32_t seed : {6U, 7U, 8U}) {
    for (int64_t block_size : {16, 32, 48, 256}) {
      PagedWorld moved({.heads = 4, .kv_heads = 2, .head_dim = 32, .block_size = block_size},
                       {290, 33, 80}, seed);
      const Rows rows = attend(moved, {{2, 0, 80}, {0, 250, 40}, {1, 32, 1}});
      for (const auto& [at, bits] : expected)
        ASSERT_EQ(rows.at(at), bits) << seed << " " << block_size;
    }
  }
}

TEST(Attention, AKeyAfterTheQueryNeverTouchesIt) {
  // The whole prompt in one call, so that the later keys are used by other rows of the same block
  // of rows.
  for (const Case& c : kCases) {
    PagedWorld world(c.sizes, {c.length}, 5);
    const Rows before = attend(world, {{0, 0, c.length}});
    const int64_t poisoned = c.length - 3;
    for (int h = 0; h < c.sizes.kv_heads; ++h) {
      for (int d = 0; d < c.sizes.head_dim; ++d) world.set_value(0, poisoned, h, d, Bf16{0x7FC0});
    }
    for (const auto& [at, bits] : attend(world, {{0, 0, c.length}})) {
      if (at.second < poisoned) {
        ASSERT_EQ(bits, before.at(at)) << at.second;
      } else {
        ASSERT_NE(bits, before.at(at)) << at.second;
      }
    }
  }
}

TEST(Attention, ThreadsDoNotChangeABit) {
  PagedWorld world({.heads = 8, .kv_heads = 2, .head_dim = 64, .block_size = 16}, {600, 90}, 5);
  const std::vector<Part> parts{{1, 89, 1}, {0, 100, 500}};
  const Rows expected = attend(world, parts);
  for (int threads : {1, 2, 4}) {
    CpuDevice device({.isa = best_isa(), .threads = threads});
    const auto stream = device.make_stream("compute");
    expect_same(world.attend(*stream, parts), expected, std::to_string(threads) + " threads");
  }
}

TEST(Attention, ScoresOfThousandsDoNotOverflow) {
  PagedWorld world({.heads = 2, .kv_heads = 1, .head_dim = 16, .block_size = 16, .spread = 100},
                   {300}, 5);
  const Rows rows = attend(world, {{0, 0, 300}});
  for (const auto& [at, bits] : rows) {
    for (uint16_t value : bits)
      ASSERT_TRUE(std::isfinite(quant::to_float(Bf16{value}))) << at.second;
  }
  expect_attention(world, rows);
}

TEST(Attention, NoTokensLaunchNothingAndEmptyPartsAreSkipped) {
  PagedWorld world({.heads = 4, .kv_heads = 2, .head_dim = 16, .block_size = 16}, {20, 20}, 5);
  EXPECT_TRUE(attend(world, {}).empty());
  EXPECT_TRUE(attend(world, {{0, 5, 0}}).empty());
  expect_same(attend(world, {{0, 5, 0}, {1, 3, 9}, {0, 20, 0}}), attend(world, {{1, 0, 20}}),
              "beside empty parts");
}

TEST(Attention, RefusesWhatItCannotRun) {
  SeededDevice device(1);
  const auto stream = device.make_stream("compute");
  PagedWorld odd_heads({.heads = 3, .kv_heads = 2, .head_dim = 16, .block_size = 16}, {4}, 5);
  EXPECT_THROW(odd_heads.attend(*stream, {{0, 0, 4}}), ShapeError);
  PagedWorld odd_dim({.heads = 2, .kv_heads = 2, .head_dim = 24, .block_size = 16}, {4}, 5);
  EXPECT_THROW(odd_dim.attend(*stream, {{0, 0, 4}}), ShapeError);

  std::vector<int32_t> query_start{0, 2}, seq_lens{1}, table{0};
  std::vector<float> q(2 * 16);
  std::vector<Bf16> out(2 * 16), cache(16 * 16);
  using device::DType;
  AttentionMeta meta;
  meta.query_start = {query_start.data(), DType::i32, {2}};
  meta.seq_lens = {seq_lens.data(), DType::i32, {1}};
  meta.block_table = {table.data(), DType::i32, {1, 1}};
  const KvCache kv{
      {1, 16, 1, 16}, {cache.data(), DType::bf16, {256}}, {cache.data(), DType::bf16, {256}}};
  const auto run = [&] {
    attention({*stream}, {out.data(), DType::bf16, {2, 16}}, {q.data(), DType::f32, {2, 1, 16}},
              meta, kv);
    try {
      stream->synchronize();
    } catch (const Error&) {
      stream->clear_failure();
      throw;
    }
  };
  EXPECT_THROW(run(), Error) << "a part with more queries than keys";
  seq_lens[0] = 2;
  EXPECT_NO_THROW(run());
  table[0] = 1;
  EXPECT_THROW(run(), Error) << "a block outside the cache";
  table[0] = 0;
  seq_lens[0] = 17;
  EXPECT_THROW(run(), Error) << "more keys than blocks";
  seq_lens[0] = 2;
  query_start[1] = 1;
  EXPECT_THROW(run(), Error) << "queries that are not there";
}

}  // namespace
}  // namespace hocket::ops
