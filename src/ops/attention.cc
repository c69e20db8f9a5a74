#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cpu/attention_kernels.h"
#include "ops/kv_check.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace hocket::ops {

void require_cache(const KvCache& cache, std::string_view op) {
  const KvShape& shape = cache.shape;
  if (shape.head_dim < 16 || shape.head_dim > 512 || shape.head_dim % 16 != 0 ||
      shape.block_size < 16 || shape.block_size % 16 != 0 || shape.kv_heads < 1) {
    throw ShapeError(
        fmt::format("{}: cache with head_dim {}, block_size {}, kv_heads {}: head_dim and "
                    "block_size must be multiples of 16, head_dim "
                    "at most 512",
                    op, shape.head_dim, shape.block_size, shape.kv_heads));
  }
  device::require(cache.k, device::DType::bf16, {shape.elements()}, fmt::format("{}: k cache", op));
  device::require(cache.v, device::DType::bf16, {shape.elements()}, fmt::format("{}: v cache", op));
}

namespace {

using device::DType;
using device::Parallel;
using device::require;
using quant::Bf16;

/// Rows (query and head pairs) of an item: enough to pay for widening a key tile, few enough that
/// their scores stay in the second cache. An item never has fewer than kFewestRows unless its part
/// is shorter.
constexpr int64_t kMostRows = 96, kFewestRows = 24;

struct Item {
  int64_t part = 0, first_query = 0, queries = 0, kv_head = 0;
  int64_t keys = 0;  ///< that its last query sees: what the item costs is about queries * keys
};
/// A cache line, so that scratch is aligned.
struct alignas(64) Line {
  float values[16];
};
int64_t lines(int64_t floats) { return (floats + 15) / 16; }

struct Call {
  kernels::AttentionKernel kernel;
  KvShape shape;
  int64_t tokens, heads, parts, max_blocks;
  const int32_t *query_start, *seq_lens, *block_table;
  const float* q;
  const Bf16 *k, *v;
  Bf16* out;

  int64_t group() const { return heads / shape.kv_heads; }
  void run(Parallel& threads) const;

 private:
  void check() const;
  std::vector<Item> items(int width) const;
  void one_item(const Item& item, float* scratch) const;
};

/// The metadata is read here, when the launch runs, so it is checked here.
void Call::check() const {
  if (query_start[0] != 0 || query_start[parts] != tokens) {
    throw InvariantError(
        fmt::format("attention: query_start runs from {} to {}, but there are {} tokens",
                    query_start[0], query_start[parts], tokens));
  }
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t queries = query_start[p + 1] - query_start[p], keys = seq_lens[p];
    if (queries < 0 || keys < queries || keys > max_blocks * shape.block_size) {
      throw InvariantError(
          fmt::format("attention: part {} has {} queries, seq_len {} and {} blocks of {}", p,
                      queries, keys, max_blocks, shape.block_size));
    }
    for (int64_t b = 0; queries > 0 && b * shape.block_size < keys; ++b) {
      require_index(block_table[p * max_blocks + b], shape.blocks, "attention: block");
    }
  }
}

/// Dearest first, so that no thread begins a long item when the others are done.
std::vector<Item> Call::items(int width) const {
  const int64_t wanted =
      tokens * heads / (4 * width);  // at least four items a thread, if they stay large enough
  const int64_t block = std::max<int64_t>(1, std::clamp(wanted, kFewestRows, kMostRows) / group());
  std::vector<Item> all;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t queries = query_start[p + 1] - query_start[p], computed = seq_lens[p] - queries;
    for (int64_t first = 0; first < queries; first += block) {
      const int64_t count = std::min(block, queries - first);
      for (int64_t h = 0; h < shape.kv_heads; ++h)
        all.push_back({p, first, count, h, computed + first + count});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Item& a, const Item& b) {
    return a.queries * a.keys > b.queries * b.keys;
  });
  return all;
}

void Call::one_item(const Item& item, float* scratch) const {
  const int64_t first_token = query_start[item.part] + item.first_query,
                head = item.kv_head * group();
  const int64_t at = (first_token * heads + head) * shape.head_dim;
  const int64_t kv_head_elements = shape.block_size * shape.head_dim;
  kernel({.q = q + at,
          .out = out + at,
          .token_stride = heads * shape.head_dim,
          .queries = item.queries,
          .first_position = item.keys - item.queries,
          .group = group(),
          .head_dim = shape.head_dim,
          .blocks = block_table + item.part * max_blocks,
          .block_size = shape.block_size,
          .block_stride = shape.kv_heads * kv_head_elements,
          .k = k + item.kv_head * kv_head_elements,
          .v = v + item.kv_head * kv_head_elements,
          .scratch = scratch});
}

void Call::run(Parallel& threads) const {
  check();
  const std::vector<Item> all = items(threads.width());
  int64_t most_queries = 0;
  for (const Item& item : all) most_queries = std::max(most_queries, item.queries);
  const int64_t floats = kernels::attention_scratch(most_queries * group(), shape.head_dim);
  std::vector<std::unique_ptr<Line[]>> scratch(static_cast<size_t>(threads.width()));
  const auto body = [&](int64_t index, int worker) {
    auto& own = scratch[static_cast<size_t>(worker)];
    if (own == nullptr)
      own = std::make_unique_for_overwrite<Line[]>(static_cast<size_t>(lines(floats)));
    one_item(all[static_cast<size_t>(index)], own[0].values);
  };
  threads.run(static_cast<int64_t>(all.size()), body);
}

}  // namespace

void attention(Lane on, TensorView out, TensorView q, const AttentionMeta& meta,
               const KvCache& cache) {
  const KvShape& shape = cache.shape;
  const int64_t tokens = q.rows(), heads = q.dim(1), parts = meta.seq_lens.rows();
  require_cache(cache, "attention");
  require(q, DType::f32, {tokens, heads, shape.head_dim}, "attention: q");
  require(out, DType::bf16, {tokens, heads * shape.head_dim}, "attention: out");
  require(meta.seq_lens, DType::i32, {parts}, "attention: seq_lens");
  require(meta.query_start, DType::i32, {parts + 1}, "attention: query_start");
  require(meta.block_table, DType::i32, {parts, meta.block_table.dim(1)}, "attention: block_table");
  if (heads % shape.kv_heads != 0) {
    throw ShapeError(fmt::format("attention: {} query heads are no multiple of {} kv heads", heads,
                                 shape.kv_heads));
  }
  if (tokens == 0) return;
  const Call call{kernels::attention_kernel(on.stream.device().isa()),
                  shape,
                  tokens,
                  heads,
                  parts,
                  meta.block_table.dim(1),
                  meta.query_start.as<int32_t>(),
                  meta.seq_lens.as<int32_t>(),
                  meta.block_table.as<int32_t>(),
                  q.as<float>(),
                  cache.k.as<Bf16>(),
                  cache.v.as<Bf16>(),
                  out.as<Bf16>()};
  // Keys and values count once a part; a part sees attention_pairs / tokens of them on average.
  const auto pairs = static_cast<double>(meta.attention_pairs);
  const double keys = pairs / static_cast<double>(tokens) * static_cast<double>(parts);
  const device::Cost cost{.flops = 4.0 * pairs * static_cast<double>(heads * shape.head_dim),
                          .memory_bytes = static_cast<double>(q.bytes() + out.bytes()) +
                                          4.0 * keys * shape.kv_heads * shape.head_dim};
  on.launch("attention", cost, [=](Parallel& threads) { call.run(threads); });
}

}  // namespace hocket::ops
