// The loops around a register block, written once. Included by one file per instruction set; V says what a vector of 16
// outputs is there (gemm_generic.cc explains its members). Each V exists in one file only, and nothing here calls a shared
// inline function: compiled there, it could be the copy that the linker keeps for processors without that set.
//
// For each range of columns of K: the rows are copied to a panel on the stack in the type that the multiply wants; then,
// tile by tile, either the weights are widened in registers (few rows: weights are read once, from memory) or one tile is
// widened to a second panel and used by all rows. Partial sums wait in c, which does not change their order.
#pragma once
#include "kernels/cpu/gemm.h"

namespace hocket::kernels {

enum class Source : uint8_t { bf16, fp8, panel };

template <class V, Source kFormat>
struct Gemm {
  using Unit = typename V::Unit;
  using Vec = typename V::Vec;
  static constexpr int kSteps = V::kSteps;
  static constexpr int kColumns = kFormat == Source::fp8 ? 128 : V::kColumns;  ///< of K, in one panel
  static constexpr int kPairs = kColumns / 2;
  static constexpr int kStride = kPairs * kSteps + 16;  ///< 64 bytes more, so that rows do not share cache sets
  static constexpr int kPairBytes = kFormat == Source::fp8 ? 32 : 64;

  /// Operands of one register block.
  struct Part {
    const Unit* x = nullptr;
    const std::byte* w = nullptr;
    int64_t tile_bytes = 0;
    int pairs = 0;
    float* c = nullptr;
    int64_t c_stride = 0;
    bool fresh = false;  ///< the first range of K: c holds nothing yet
    const float* x_scale = nullptr;
    int64_t x_scale_stride = 0;
    const float* w_scales = nullptr;  ///< of all ranges
    float w_scale = 1;                ///< of this one
  };

  /// R rows by T tiles, accumulators in registers.
  template <Source S, int R, int T>
  [[gnu::noinline]] static void registers(const Part& p) {
    Vec acc[R][T];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        acc[r][t] = kFormat == Source::fp8 || p.fresh ? V::zero() : V::load(p.c + r * p.c_stride + t * 16);
      }
    }
    const Unit* x = p.x;
    const std::byte* w = p.w;
    const int64_t tile_bytes = p.tile_bytes;
    for (int j = 0; j < p.pairs; ++j) {
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        if constexpr (S != Source::panel && R <= V::kPrefetchRows) V::prefetch(w + t * tile_bytes);
      }
#pragma GCC unroll 2
      for (int s = 0; s < kSteps; ++s) {
#pragma GCC unroll 16
        for (int t = 0; t < T; ++t) {
          const auto weights = V::template fetch<S>(w + t * tile_bytes, s);
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) {
            acc[r][t] = V::fma(x + r * kStride + (kSteps - 1 - s), weights, acc[r][t]);
          }
        }
      }
      x += kSteps;
      w += S == Source::panel ? V::kPanelPairBytes : kPairBytes;
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      float scale = p.w_scale;
      if (kFormat == Source::fp8 && p.x_scale != nullptr) scale *= p.x_scale[r * p.x_scale_stride];
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        float* c = p.c + r * p.c_stride + t * 16;
        V::store(c, kFormat == Source::bf16 ? acc[r][t] : V::scale(scale, acc[r][t], p.fresh ? V::zero() : V::load(c)));
      }
    }
  }

  /// R rows by `tiles` tiles, T side by side while there are so many. Leftovers are rare: few sizes keep the code small.
  template <Source S, int R, int T>
  static void across(Part p, int tiles) {
    for (; tiles >= T; tiles -= T) {
      registers<S, R, T>(p);
      p.w += T * p.tile_bytes;
      p.c += T * kTileColumns;
    }
    if constexpr (T > 1) across<S, R, (T > 4 ? 4 : 1)>(p, tiles);
  }
  template <Source S, int R>
  static void across_rows(const Part& p, int rows, int tiles) {
    if (rows == R) return across<S, R, V::tiles(S, R)>(p, tiles);
    if constexpr (R > 1) across_rows<S, R - 1>(p, rows, tiles);
  }

  /// All rows by `tiles` tiles, in blocks of nearly equal height: one row alone would wait for its own sums.
  template <Source S>
  static void down(Part p, int rows, int tiles) {
    constexpr int kRows = V::rows(S);
    const int blocks = (rows + kRows - 1) / kRows;
    for (int b = 0; b < blocks; ++b) {
      const int height = (rows + blocks - 1 - b) / blocks;
      across_rows<S, kRows>(p, height, tiles);
      p.x += height * kStride;
      p.c += height * p.c_stride;
      if (p.x_scale != nullptr) p.x_scale += height * p.x_scale_stride;
    }
  }

  static void widen_tile(const GemmBlock& block, const std::byte* w, int pairs, std::byte* panel) {
    const bool exact = !rows_of_codes(block);
    for (int j = 0; j < pairs; ++j) {
      for (int s = 0; s < kSteps; ++s) {
        const auto weights = V::template fetch<kFormat>(w + j * kPairBytes, s);
        V::put(panel + j * V::kPanelPairBytes + s * 64, exact ? V::template exact<kFormat>(weights) : weights);
      }
    }
  }

  /// A widened row may be 2^8 too large, to make up for e4m3 that widen to 2^8 too small. That is exact for rows of codes
  /// (those with scales), not for rows that may hold any bf16: then the weights must be exact.
  static bool rows_of_codes(const GemmBlock& block) { return kFormat == Source::fp8 && block.x_scale != nullptr; }
  static void widen_row(const GemmBlock& block, int m, int64_t range, Unit* to) {
    const quant::Bf16* from = block.x + m * block.k + range * kColumns;
    if (rows_of_codes(block)) {
      V::template widen<Source::fp8>(from, columns_of(block, range), to);
    } else {
      V::template widen<Source::bf16>(from, columns_of(block, range), to);
    }
  }
  /// Whether weights are widened in registers.
  static bool direct(const GemmBlock& block) {
    return block.rows < V::panel_rows(kFormat) && (kFormat == Source::bf16 || rows_of_codes(block));
  }

  static int columns_of(const GemmBlock& block, int64_t range) {
    const int64_t left = block.k - range * kColumns;
    return left < kColumns ? static_cast<int>(left) : kColumns;
  }

  /// Tiles [0, tiles) of p over the ranges of K in [begin, end), whose rows are in panels one behind the other.
  static void ranges(const GemmBlock& block, Part p, int tiles, int64_t begin, int64_t end) {
    constexpr int64_t kMaxTiles = V::panel_tiles();
    alignas(64) std::byte panel[kMaxTiles * kPairs * V::kPanelPairBytes];
    const std::byte* first = p.w;
    const Unit* x = p.x;
    for (int64_t range = begin; range < end; ++range, x += block.rows * kStride) {
      p.pairs = (columns_of(block, range) + 1) / 2;
      p.x = x;
      p.w = first + range * kPairs * kPairBytes;
      p.fresh = range == 0;
      if constexpr (kFormat == Source::fp8) {
        p.w_scale = p.w_scales[range];
        p.x_scale = block.x_scale == nullptr ? nullptr : block.x_scale + range;
      }
      if (direct(block)) {
        down<kFormat>(p, block.rows, tiles);
        continue;
      }
      for (int t = 0; t < tiles; ++t) {
        widen_tile(block, p.w + t * p.tile_bytes, p.pairs, panel + t * kPairs * V::kPanelPairBytes);
      }
      Part widened = p;
      widened.w = panel;
      widened.tile_bytes = kPairs * V::kPanelPairBytes;
      down<Source::panel>(widened, block.rows, tiles);
    }
  }

  static void block(const GemmBlock& block, float* c, int64_t stride) {
    alignas(64) Unit x[kMaxBlockRows * kStride];
    if (block.rows == 0) return;
    const int group = direct(block) ? V::kDirectTiles : V::panel_tiles();
    const int64_t groups = (block.k + 127) / 128;
    const int64_t num_ranges = (block.k + kColumns - 1) / kColumns;
    const int64_t fit = kMaxBlockRows / block.rows;  // ranges of K whose rows fit into x together
    Part p;
    p.tile_bytes = (block.k + 1) / 2 * kPairBytes;
    p.c_stride = stride;
    p.x_scale_stride = groups;
    for (int64_t begin = 0; begin < num_ranges; begin += fit) {
      const int64_t end = begin + fit < num_ranges ? begin + fit : num_ranges;
      Unit* to = x;
      for (int64_t range = begin; range < end; ++range) {
        for (int m = 0; m < block.rows; ++m, to += kStride) {
          widen_row(block, m, range, to);
        }
      }
      for (int t = 0; t < block.tiles; t += group) {
        p.x = x;
        p.w = block.w + t * p.tile_bytes;
        p.c = c + t * kTileColumns;
        if constexpr (kFormat == Source::fp8) p.w_scales = block.w_scale + t * kTileColumns / 128 * groups;
        ranges(block, p, block.tiles - t < group ? block.tiles - t : group, begin, end);
      }
    }
  }
};

}  // namespace hocket::kernels
