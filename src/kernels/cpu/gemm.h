// One block of a matrix product, y = x Wt, on packed weights: what every instruction set offers, with equal bits.
// Which blocks there are, and which thread computes which, is decided in ops/.
//
// Sum order of one output (docs/invariance.md). acc = 0; for each pair of columns (2j, 2j+1) of K, ascending:
//   acc = fma(x[2j], w[2j], fma(x[2j+1], w[2j+1], acc))
// which is what the instruction vdpbf16ps computes; an odd K is padded with zeros; denormals count as zero (FTZ and DAZ
// are set on threads that run kernels). FP8 weights: that sum from 0 over each 128 columns, then, ascending,
//   out = fma(x_scale * w_scale, sum, out).
//
// Packed weights: tiles of 16 rows n of W, [ceil(N/16)][ceil(K/2)][16][2] elements, zero where n >= N or k >= K. A pair
// of all 16 outputs is one cache line of bf16, or half a line of e4m3.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/isa.h"
#include "quant/bf16.h"

namespace hocket::kernels {

inline constexpr int kTileColumns = 16;
/// Limits of one block. The rows bound the stack that a kernel uses (about 200 KB).
inline constexpr int kMaxBlockRows = 96;
inline constexpr int kMaxBlockTiles = 64;

/// `rows` rows of x times `tiles` tiles of W. Any alignment.
struct GemmBlock {
  int64_t k = 0;                    ///< >= 1
  const quant::Bf16* x = nullptr;   ///< [rows, k], contiguous
  int rows = 0;                     ///< 0..kMaxBlockRows
  const std::byte* w = nullptr;     ///< the first tile
  int tiles = 0;                    ///< 0..kMaxBlockTiles
  const float* x_scale = nullptr;   ///< fp8: [rows, ceil(k/128)], or null for 1
  const float* w_scale = nullptr;   ///< fp8: [.., ceil(k/128)], from the first tile's 128 outputs on. More than 8 tiles
                                    ///< start where 128 outputs do, fewer lie within them
};

/// Write c[m, 0 .. 16 * tiles) for m < rows; c has `stride` elements a row. Thread safe.
struct GemmKernels {
  void (*bf16)(const GemmBlock& block, float* c, int64_t stride);
  void (*fp8)(const GemmBlock& block, float* c, int64_t stride);
};

/// The table for `isa`, which the processor must support.
const GemmKernels& gemm_kernels(Isa isa);

}  // namespace hocket::kernels
