// A paged cache with known keys and values, and attention over any cut of its sequences. For tests
// only.
#pragma once
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "base/isa.h"
#include "device/stream.h"
#include "ops/ops.h"

namespace hocket::ops::testing {

using quant::Bf16;

/// Sequences with random q, k, v at every position, spread over the blocks of one cache in an order
/// that `seed` shuffles. Every cache element that no token owns is NaN.
class PagedWorld {
 public:
  struct Sizes {
    int heads = 4, kv_heads = 2, head_dim = 32;
    int64_t block_size = 16;
    float spread = 1.5F;  ///< standard deviation of q, k and v
  };
  /// Some tokens of one sequence: queries at [computed, computed + queries).
  struct Part {
    int sequence = 0;
    int64_t computed = 0, queries = 0;
  };
  /// Output rows of one call, by (sequence, position): heads * head_dim bf16 bit patterns.
  using Rows = std::map<std::pair<int, int64_t>, std::vector<uint16_t>>;

  /// Values depend on (sequence, position) only; `seed` moves the blocks.
  PagedWorld(Sizes sizes, const std::vector<int64_t>& lengths, uint32_t seed) : sizes_(sizes) {
    std::vector<int32_t> free;
    for (int64_t length : lengths)
      max_blocks_ = std::max(max_blocks_, (length + sizes.block_size - 1) / sizes.block_size);
    const auto blocks =
        static_cast<int32_t>(max_blocks_ * static_cast<int64_t>(lengths.size()) + 3);
    for (int32_t block = 0; block < blocks; ++block) free.push_back(block);
    std::shuffle(free.begin(), free.end(), std::mt19937(seed));
    shape_ = {blocks, sizes.block_size, sizes.kv_heads, sizes.head_dim};
    k_.assign(static_cast<size_t>(shape_.elements()), Bf16{0xFFFF});
    v_ = k_;
    for (size_t s = 0; s < lengths.size(); ++s)
      add_sequence(static_cast<uint32_t>(s), lengths[s], &free);
  }

  int64_t width() const { return sizes_.heads * sizes_.head_dim; }
  const float* q(int sequence, int64_t position) const {
    return at(sequences_[sequence].q, position, width());
  }
  const float* k(int sequence, int64_t position, int kv_head) const {
    return at(sequences_[sequence].k, position * sizes_.kv_heads + kv_head, sizes_.head_dim);
  }
  const float* v(int sequence, int64_t position, int kv_head) const {
    return at(sequences_[sequence].v, position * sizes_.kv_heads + kv_head, sizes_.head_dim);
  }
  const Sizes& sizes() const { return sizes_; }
  /// Sets one element of the cache: what a query that must not see it would be changed by.
  void set_value(int sequence, int64_t position, int kv_head, int d, Bf16 value) {
    v_[static_cast<size_t>(slot_head(sequence, position, kv_head) * sizes_.head_dim + d)] = value;
  }

  Rows attend(device::Stream& stream, const std::vector<Part>& parts) {
    std::vector<int32_t> query_start{0}, seq_lens, table;
    std::vector<float> queries;
    int64_t pairs = 0;
    for (const Part& part : parts) {
      const auto end = part.computed + part.queries;
      for (int64_t p = part.computed; p < end; ++p) {
        queries.insert(queries.end(), q(part.sequence, p), q(part.sequence, p) + width());
        pairs += p + 1;
      }
      query_start.push_back(query_start.back() + static_cast<int32_t>(part.queries));
      seq_lens.push_back(static_cast<int32_t>(end));
      auto row = sequences_[part.sequence].blocks;
      row.resize(static_cast<size_t>(max_blocks_), -1);
      table.insert(table.end(), row.begin(), row.end());
    }
    const int64_t tokens = query_start.back(), count = static_cast<int64_t>(parts.size());
    std::vector<Bf16> out(static_cast<size_t>(tokens * width()), Bf16{0xFFFF});
    using device::DType;
    AttentionMeta meta;
    meta.query_start = {query_start.data(), DType::i32, {count + 1}};
    meta.seq_lens = {seq_lens.data(), DType::i32, {count}};
    meta.block_table = {table.data(), DType::i32, {count, max_blocks_}};
    meta.attention_pairs = pairs;
    attention({stream}, {out.data(), DType::bf16, {tokens, width()}},
              {queries.data(), DType::f32, {tokens, sizes_.heads, sizes_.head_dim}}, meta, cache());
    stream.synchronize();
    return rows(parts, out);
  }

  KvCache cache() {
    return {shape_,
            {k_.data(), device::DType::bf16, {shape_.elements()}},
            {v_.data(), device::DType::bf16, {shape_.elements()}}};
  }

 private:
  struct Sequence {
    std::vector<float> q, k, v;
    std::vector<int32_t> blocks;
  };
  static const float* at(const std::vector<float>& of, int64_t row, int64_t width) {
    return of.data() + row * width;
  }
  /// Index of (block, kv head, offset) in the value cache, in rows of head_dim.
  int64_t slot_head(int sequence, int64_t position, int64_t kv_head) const {
    const int64_t block =
        sequences_[sequence].blocks[static_cast<size_t>(position / sizes_.block_size)];
    return (block * sizes_.kv_heads + kv_head) * sizes_.block_size + position % sizes_.block_size;
  }

  void add_sequence(uint32_t index, int64_t length, std::vector<int32_t>* free) {
    std::mt19937 random(1000 + index);
    std::normal_distribution<float> normal(0, sizes_.spread);
    Sequence& sequence = sequences_.emplace_back();
    for (int64_t b = 0; b * sizes_.block_size < length; ++b) {
      sequence.blocks.push_back(free->back());
      free->pop_back();
    }
    for (int64_t p = 0; p < length; ++p) {
      for (int64_t i = 0; i < width(); ++i) sequence.q.push_back(normal(random));
      for (int h = 0; h < sizes_.kv_heads; ++h) {
        for (int d = 0; d < sizes_.head_dim; ++d) {
          const Bf16 key = quant::to_bf16(normal(random)), value = quant::to_bf16(normal(random));
          sequence.k.push_back(quant::to_float(key));
          sequence.v.push_back(quant::to_float(value));
          const int64_t row = slot_head(static_cast<int>(index), p, h);
          k_[static_cast<size_t>((row / 16 * sizes_.head_dim + d) * 16 + row % 16)] = key;
          v_[static_cast<size_t>(row * sizes_.head_dim + d)] = value;
        }
      }
    }
  }

  Rows rows(const std::vector<Part>& parts, const std::vector<Bf16>& out) const {
    Rows all;
    const Bf16* row = out.data();
    for (const Part& part : parts) {
      for (int64_t p = part.computed; p < part.computed + part.queries; ++p, row += width()) {
        auto& bits = all[{part.sequence, p}];
        for (int64_t i = 0; i < width(); ++i) bits.push_back(row[i].bits);
      }
    }
    return all;
  }

  Sizes sizes_;
  KvShape shape_;
  int64_t max_blocks_ = 0;
  std::vector<Bf16> k_, v_;
  std::vector<Sequence> sequences_;
};

}  // namespace hocket::ops::testing
