// How a product is divided into blocks: shared by gemm() and experts(). A block's bits do not depend on the division.
#pragma once
#include <algorithm>

#include "kernels/cpu/gemm.h"
#include "ops/ops.h"

namespace hocket::ops {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Throws ShapeError naming `what` unless x [rows, w.k], with or without scales, can be multiplied by w.
void require_operand(const Operand& x, const PackedWeight& w, std::string_view what);

/// An operand, and a product, as a launch captures them.
struct Rows {
  const quant::Bf16* data = nullptr;
  const float* scales = nullptr;  ///< null: 1
};
Rows rows_of(const Operand& x);
struct Product {
  Product(Rows left, const PackedWeight& w);
  int64_t tiles() const { return ceil_div(n, kernels::kTileColumns); }

  Rows x;
  const std::byte* weights = nullptr;
  const float* scales = nullptr;  ///< of weights; null: bf16
  int64_t n = 0, k = 0;
};

/// Rows [row, row + rows) and tiles [tile, tile + tiles) of a product.
struct Part {
  int64_t row = 0, rows = 0, tile = 0, tiles = 0;
};
/// c[m, 0 .. 16 * tiles) = that part; `c` has `stride` elements a row.
void multiply(const kernels::GemmKernels& kernels, const Product& product, Part part, float* c, int64_t stride);

/// Rows that share a block: nearly equal blocks of whole register blocks.
inline int64_t block_rows(int64_t rows) {
  const int64_t blocks = std::max<int64_t>(1, ceil_div(rows, kernels::kMaxBlockRows));
  return std::min<int64_t>(kernels::kMaxBlockRows, ceil_div(ceil_div(rows, blocks), 12) * 12);
}

/// Tiles of a block whose result waits on the stack, in the second-level cache.
inline constexpr int kBufferedTiles = 16;
static_assert(kBufferedTiles <= kernels::kMaxBlockTiles);

/// Tiles that share a block, a power of two: as many as possible, at most `most`, that still give each of `width` threads
/// some blocks: each block copies its rows. Fewer than 4 only if a thread would have nothing: with one row, 4 tiles side by
/// side hide the latency of sums.
inline int64_t block_tiles(int64_t tiles, int64_t row_blocks, int width, int64_t most) {
  int64_t group = most;
  const auto blocks = [&] { return row_blocks * ceil_div(tiles, group); };
  while (width > 1 && group > 4 && blocks() < 4 * width) group /= 2;
  while (group > 1 && blocks() < width) group /= 2;
  return group;
}

}  // namespace hocket::ops
