// The attention kernel, written once over 16 lanes. Included by one file per instruction set.
//
// A row is one (query, head) pair; rows ascend by query. They are handled in blocks of up to four,
// so that a key or value that was loaded serves four rows. Where the rows of a block see different
// numbers of keys, the common ones are done together and the others row by row: a key that a row
// does not see never enters its arithmetic.
#pragma once
#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/simd_math.h"

namespace hocket::kernels {

template <class V>
class Attention {
 public:
  static void run(const AttentionTask& task) { Attention(task).all_tiles(); }
  static int64_t scratch(int64_t rows, int64_t head_dim) { return Offsets(rows, head_dim).end; }

 private:
  using F = typename V::F;
  using Bf16 = quant::Bf16;
  static constexpr int kRowBlock = 4;
  static constexpr int64_t kWidenFrom = 16;  ///< rows that pay for widening a tile to f32 first
  static constexpr int64_t kGroups =
      kKeyTile / 16;  ///< 16 keys are a group: never split over two blocks
  static constexpr int64_t kScoreStride =
      kKeyTile + 16;  ///< not a power of two: rows in different cache sets
  /// Vectors beside each other for R rows: as many as the registers hold, for independent chains of
  /// additions.
  static constexpr int vectors(int rows) {
    return V::kAccumulators >= 4 * rows ? 4 : V::kAccumulators >= 2 * rows ? 2 : 1;
  }

  /// Where things lie in the scratch memory, in floats. All are multiples of 16.
  struct Offsets {
    Offsets(int64_t rows, int64_t dim) {
      const int64_t per_row = (rows + 15) / 16 * 16, tile = rows >= kWidenFrom ? kKeyTile * dim : 0;
      queries = 0;
      scores = queries + rows * dim;
      tile_output = scores + rows * kScoreStride;
      output = tile_output + rows * dim;
      tile_maximum = output + rows * dim;
      tile_total = tile_maximum + per_row;
      maximum = tile_total + per_row;
      total = maximum + per_row;
      keys = total + per_row;
      values = keys + tile;
      end = values + tile;
    }
    int64_t queries;              ///< [block][dim][row of the block]
    int64_t scores;               ///< [rows][kScoreStride]: s_j, then p_j in place
    int64_t tile_output, output;  ///< [rows][dim]
    int64_t tile_maximum, tile_total, maximum, total;  ///< [rows]
    int64_t keys, values;  ///< a widened tile: [group][dim][16] and [dim / 16][kKeyTile][16]
    int64_t end;
  };

  /// The keys and values of one tile, by group.
  template <class T>
  struct Tile {
    const T* keys[kGroups];    ///< [dim][16]
    const T* values[kGroups];  ///< 16 rows; columns by 16
    const T* ahead[kGroups];   ///< keys of the next tile
    int64_t num_ahead = 0;
    int64_t row_stride, column_stride;
  };
  struct Block {
    int64_t first, size;
  };

  explicit Attention(const AttentionTask& task)
      : task_(task), rows_(task.rows()), dim_(task.head_dim), at_(rows_, dim_) {}

  float* memory(int64_t offset) const { return task_.scratch + offset; }
  int64_t num_blocks() const { return (rows_ + kRowBlock - 1) / kRowBlock; }
  /// Blocks of nearly equal size: 6 rows are 3 + 3, not 4 + 2.
  Block block(int64_t index) const {
    const int64_t size = rows_ / num_blocks(), larger = rows_ % num_blocks();
    return {index * size + (index < larger ? index : larger), size + (index < larger ? 1 : 0)};
  }
  /// How many keys of the tile the row sees; zero or less if none.
  int64_t visible(int64_t row, int64_t tile) const {
    const int64_t keys = task_.first_position + row / task_.group + 1 - tile;
    return keys < kKeyTile ? keys : kKeyTile;
  }
  /// body.operator()<R>() for R = size: the inner loops know their number of rows.
  template <int R = kRowBlock, class Body>
  static void with_rows(int64_t size, Body body) {
    if (size == R) {
      body.template operator()<R>();
    } else if constexpr (R > 1) {
      with_rows<R - 1>(size, body);
    }
  }

  /// Fetches what the next phase reads: a decode step is bound by memory, and blocks lie anywhere.
  /// Values come while scores are computed, the next keys while values are added. A widened tile is
  /// in the caches already.
  static void will_need(const Bf16* from, int64_t count) {
    for (int64_t i = 0; i < count; i += 32) __builtin_prefetch(from + i);
  }
  static void will_need(const float*, int64_t) {}

  // Keys and values are multiplied in the order of lanes in which they are cheapest to load.
  static F load(const float* from) { return V::load(from); }
  static F load(const Bf16* from) { return V::load_split(from); }
  template <class T>
  static F join(F a) {
    if constexpr (sizeof(T) == sizeof(Bf16)) return V::join(a);
    return a;
  }
  template <class T>
  static F split(F a) {
    if constexpr (sizeof(T) == sizeof(Bf16)) return V::split(a);
    return a;
  }

  void all_tiles() const {
    pack_queries();
    for (int64_t row = 0; row < rows_; ++row) {
      memory(at_.maximum)[row] = -__builtin_inff();
      memory(at_.total)[row] = 0.0F;
      for (int64_t d = 0; d < dim_; d += 16)
        V::store(memory(at_.output) + row * dim_ + d, V::all(0.0F));
    }
    for (int64_t tile = 0; visible(rows_ - 1, tile) > 0; tile += kKeyTile) {
      const Tile<Bf16> paged = paged_tile(tile);
      if (rows_ >= kWidenFrom) {
        one_tile(tile, widened(paged, visible(rows_ - 1, tile)), 4, vectors(kRowBlock));
      } else {
        one_tile(tile, paged, kGroups, dim_ / 16);
      }
    }
    write_output();
  }

  void pack_queries() const {
    for (int64_t b = 0; b < num_blocks(); ++b) {
      const Block rows = block(b);
      for (int64_t r = 0; r < rows.size; ++r) {
        const int64_t row = rows.first + r;
        const float* q =
            task_.q + row / task_.group * task_.token_stride + row % task_.group * dim_;
        float* packed = memory(at_.queries) + rows.first * dim_ + r;
        for (int64_t d = 0; d < dim_; ++d) packed[d * rows.size] = q[d];
      }
    }
  }

  const Bf16* group_at(const Bf16* cache, int64_t position) const {
    return cache + task_.blocks[position / task_.block_size] * task_.block_stride +
           position % task_.block_size * dim_;
  }
  Tile<Bf16> paged_tile(int64_t tile) const {
    Tile<Bf16> out;
    out.row_stride = dim_;
    out.column_stride = 16;
    const int64_t keys = visible(rows_ - 1, tile);
    for (int64_t g = 0; g * 16 < keys; ++g) {
      out.keys[g] = group_at(task_.k, tile + g * 16);
      out.values[g] = group_at(task_.v, tile + g * 16);
    }
    const int64_t more = visible(rows_ - 1, tile + kKeyTile);
    for (; out.num_ahead * 16 < more; ++out.num_ahead) {
      out.ahead[out.num_ahead] = group_at(task_.k, tile + kKeyTile + out.num_ahead * 16);
    }
    return out;
  }

  /// The first `keys` keys and values as f32. The keys of the last group are widened whole: lanes
  /// are independent.
  Tile<float> widened(const Tile<Bf16>& from, int64_t keys) const {
    Tile<float> out;
    out.row_stride = 16;
    out.column_stride = kKeyTile * 16;
    for (int64_t g = 0; g * 16 < keys; ++g) {
      float* k = memory(at_.keys) + g * 16 * dim_;
      float* v = memory(at_.values) + g * 16 * 16;
      for (int64_t d = 0; d < dim_; ++d) V::store(k + d * 16, V::load(from.keys[g] + d * 16));
      const int64_t rows = keys - g * 16 < 16 ? keys - g * 16 : 16;
      for (int64_t c = 0; c < dim_ / 16; ++c) {
        for (int64_t j = 0; j < rows; ++j) {
          V::store(v + c * out.column_stride + j * 16, V::load(from.values[g] + j * dim_ + c * 16));
        }
      }
      out.keys[g] = k;
      out.values[g] = v;
    }
    return out;
  }

  /// `groups` and `columns` say how much is used by all rows before the next is taken: what stays
  /// in the first cache.
  template <class T>
  void one_tile(int64_t tile, const Tile<T>& of, int64_t groups, int64_t columns) const {
    const int64_t before =
        tile - task_.first_position;  // queries that are before the tile see nothing of it
    const int64_t first_row = before > 0 ? before * task_.group : 0;
    int64_t first_block = 0;
    while (block(first_block).first + block(first_block).size <= first_row) ++first_block;
    for (int64_t g = 0; g < kGroups; g += groups) {
      for (int64_t b = first_block; b < num_blocks(); ++b)
        scores(block(b), tile, of, g, g + groups);
    }
    for (int64_t row = first_row; row < rows_; ++row) exponentials(row, visible(row, tile));
    for (int64_t c = 0; c < dim_ / 16; c += columns) {
      const int64_t end = c + columns < dim_ / 16 ? c + columns : dim_ / 16;
      for (int64_t b = first_block; b < num_blocks(); ++b) outputs(block(b), tile, of, c, end);
    }
    for (int64_t row = first_row; row < rows_; ++row) merge(row);
  }

  // s_j for the keys of groups [begin, end) that some row of the block sees.
  template <class T>
  void scores(Block rows, int64_t tile, const Tile<T>& of, int64_t begin, int64_t end) const {
    const int64_t keys = visible(rows.first + rows.size - 1, tile), groups = (keys + 15) / 16;
    if (end > groups) end = groups;
    const float* q = memory(at_.queries) + rows.first * dim_;
    float* out = memory(at_.scores) + rows.first * kScoreStride;
    with_rows(rows.size, [&]<int R>() {
      constexpr int kWide = vectors(R);
      for (int64_t g = begin; g < end;) {
        const int64_t count = g + kWide <= end ? kWide : 1;
        for (int64_t n = 0; n < count; ++n) will_need(of.values[g + n], 16 * dim_);
        if (count == kWide) {
          scores_block<R, kWide>(q, of.keys + g, out + g * 16);
        } else {
          scores_block<R, 1>(q, of.keys + g, out + g * 16);
        }
        g += count;
      }
    });
  }
  template <int R, int N, class T>
  void scores_block(const float* q, const T* const* keys, float* out) const {
    F sums[R][N];
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n) sums[r][n] = V::all(0.0F);
    }
    for (int64_t d = 0; d < dim_; ++d) {
      F k[N];
      for (int n = 0; n < N; ++n) k[n] = load(keys[n] + d * 16);
      for (int r = 0; r < R; ++r) {
        const F value = V::all(q[d * R + r]);
        for (int n = 0; n < N; ++n) sums[r][n] = V::fma(value, k[n], sums[r][n]);
      }
    }
    const F scale = V::all(1.0F / __builtin_sqrtf(static_cast<float>(dim_)));
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n)
        V::store(out + r * kScoreStride + n * 16, V::mul(join<T>(sums[r][n]), scale));
    }
  }

  /// m_t, p_j and l_t of a row that sees `keys` keys. Lanes beyond count as minus infinity in m_t
  /// and give p_j = +0.
  void exponentials(int64_t row, int64_t keys) const {
    float* s = memory(at_.scores) + row * kScoreStride;
    const float lowest = -__builtin_inff();
    const auto get = [=](int64_t j) {
      return keys - j < 16 ? V::load_first(s + j, keys - j, lowest) : V::load(s + j);
    };
    F most = V::all(lowest);
    for (int64_t j = 0; j < keys; j += 16) most = V::max(most, get(j));
    const float maximum = V::largest(most);
    F sums = V::all(0.0F);
    for (int64_t j = 0; j < keys; j += 16) {
      const F p = exp_nonpositive<V>(V::sub(get(j), V::all(maximum)));
      sums = V::add(sums, p);
      V::store(s + j, p);
    }
    memory(at_.tile_maximum)[row] = maximum;
    memory(at_.tile_total)[row] = V::sum(sums);
  }

  // o_t for 16-columns [begin, end) of the block's rows.
  template <class T>
  void outputs(Block rows, int64_t tile, const Tile<T>& of, int64_t begin, int64_t end) const {
    const int64_t seen = visible(rows.first, tile), common = seen > 0 ? seen : 0;
    with_rows(rows.size,
              [&]<int R>() { outputs_columns<R>(rows.first, of, 0, common, begin, end); });
    for (int64_t row = rows.first; row < rows.first + rows.size; ++row) {
      const int64_t keys = visible(row, tile);
      if (keys > common) outputs_columns<1>(row, of, common, keys, begin, end);
    }
  }
  template <int R, class T>
  void outputs_columns(int64_t row, const Tile<T>& of, int64_t first_key, int64_t keys, int64_t c,
                       int64_t end) const {
    for (; c + vectors(R) <= end; c += vectors(R))
      outputs_block<R, vectors(R)>(row, of, first_key, keys, c);
    for (; c < end; ++c) outputs_block<R, 1>(row, of, first_key, keys, c);
  }
  /// Adds p_j v_j for j in [key, keys), ascending; starts from zero at j = 0.
  template <int R, int N, class T>
  void outputs_block(int64_t row, const Tile<T>& of, int64_t key, int64_t keys,
                     int64_t column) const {
    const float* p = memory(at_.scores) + row * kScoreStride;
    float* out = memory(at_.tile_output) + row * dim_ + column * 16;
    F sums[R][N];
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n)
        sums[r][n] = key == 0 ? V::all(0.0F) : split<T>(V::load(out + r * dim_ + n * 16));
    }
    while (key < keys) {
      if (key / 16 < of.num_ahead) will_need(of.ahead[key / 16] + column * 256, N * 256);
      const T* v = of.values[key / 16] + column * of.column_stride + key % 16 * of.row_stride;
      const int64_t group_end = key / 16 * 16 + 16, end = group_end < keys ? group_end : keys;
      for (; key < end; ++key, v += of.row_stride) {
        F value[N];
        for (int n = 0; n < N; ++n) value[n] = load(v + n * of.column_stride);
        for (int r = 0; r < R; ++r) {
          const F weight = V::all(p[r * kScoreStride + key]);
          for (int n = 0; n < N; ++n) sums[r][n] = V::fma(weight, value[n], sums[r][n]);
        }
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int n = 0; n < N; ++n) V::store(out + r * dim_ + n * 16, join<T>(sums[r][n]));
    }
  }

  /// (m, l, o) of the tiles so far with (m_t, l_t, o_t): both are brought to the larger maximum.
  void merge(int64_t row) const {
    const float before = memory(at_.maximum)[row], now = memory(at_.tile_maximum)[row];
    const float maximum = before > now ? before : now;
    float factors[16] = {before, now};
    V::store(factors, exp_nonpositive<V>(V::sub(V::load(factors), V::all(maximum))));
    float* total = memory(at_.total) + row;
    *total = __builtin_fmaf(*total, factors[0], memory(at_.tile_total)[row] * factors[1]);
    memory(at_.maximum)[row] = maximum;
    float* o = memory(at_.output) + row * dim_;
    const float* t = memory(at_.tile_output) + row * dim_;
    for (int64_t d = 0; d < dim_; d += 16) {
      const F added = V::mul(V::load(t + d), V::all(factors[1]));
      V::store(o + d, V::fma(V::load(o + d), V::all(factors[0]), added));
    }
  }

  void write_output() const {
    for (int64_t row = 0; row < rows_; ++row) {
      const F total = V::all(memory(at_.total)[row]);
      const float* o = memory(at_.output) + row * dim_;
      Bf16* out = task_.out + row / task_.group * task_.token_stride + row % task_.group * dim_;
      for (int64_t d = 0; d < dim_; d += 16) V::store(out + d, V::div(V::load(o + d), total));
    }
  }

  const AttentionTask& task_;
  int64_t rows_, dim_;
  Offsets at_;
};

}  // namespace hocket::kernels
