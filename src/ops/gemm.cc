#include <cstring>

#include <fmt/format.h>

#include "ops/gemm_parts.h"

namespace hocket::ops {

using device::DType;
using kernels::kMaxBlockRows;
using kernels::kTileColumns;

void require_operand(const Operand& x, const PackedWeight& w, std::string_view what) {
  device::require(x.rows, DType::bf16, {x.rows.rows(), w.k}, what);
  if (x.scales.rank == 0) return;
  if (w.format == WeightFormat::bf16) {
    throw ShapeError(fmt::format("{}: bf16 weights with activation scales {}", what, x.scales.str()));
  }
  device::require(x.scales, DType::f32, {x.rows.rows(), ceil_div(w.k, quant::kScaleBlock)}, what);
}

Rows rows_of(const Operand& x) {
  return {x.rows.as<quant::Bf16>(), x.scales.rank == 0 ? nullptr : x.scales.as<float>()};
}

Product::Product(Rows left, const PackedWeight& w)
    : x(left),
      weights(w.data.data),
      scales(w.format == WeightFormat::bf16 ? nullptr : w.scales.as<float>()),
      n(w.n),
      k(w.k) {}

void multiply(const kernels::GemmKernels& kernels, const Product& product, Part part, float* c, int64_t stride) {
  const auto format = product.scales == nullptr ? WeightFormat::bf16 : WeightFormat::fp8_block;
  const int64_t groups = ceil_div(product.k, quant::kScaleBlock);
  kernels::GemmBlock block;
  block.k = product.k;
  block.x = product.x.data + part.row * product.k;
  block.rows = static_cast<int>(part.rows);
  block.w = product.weights + part.tile * packed_bytes(kTileColumns, product.k, format);
  block.tiles = static_cast<int>(part.tiles);
  if (format == WeightFormat::bf16) return kernels.bf16(block, c, stride);
  if (product.x.scales != nullptr) block.x_scale = product.x.scales + part.row * groups;
  block.w_scale = product.scales + part.tile * kTileColumns / quant::kScaleBlock * groups;
  kernels.fp8(block, c, stride);
}

namespace {

/// Whether blocks are computed in place: only whole tiles that are not added to anything.
bool in_place(Store store, int64_t n) { return store == Store::assign && n % kTileColumns == 0; }

void compute(const kernels::GemmKernels& kernels, const Product& product, Part part, Store store, float* out) {
  const int64_t stride = part.tiles * kTileColumns, first = part.tile * kTileColumns;
  if (in_place(store, product.n)) {
    return multiply(kernels, product, part, out + part.row * product.n + first, product.n);
  }
  const int64_t columns = std::min(stride, product.n - first);
  alignas(64) float c[kMaxBlockRows * kBufferedTiles * kTileColumns];
  multiply(kernels, product, part, c, stride);
  for (int64_t m = 0; m < part.rows; ++m) {
    float* to = out + (part.row + m) * product.n + first;
    const float* from = c + m * stride;
    if (store == Store::assign) {
      std::memcpy(to, from, static_cast<size_t>(columns) * sizeof(float));
    } else {
      for (int64_t n = 0; n < columns; ++n) to[n] += from[n];
    }
  }
}

}  // namespace

void gemm(Lane on, TensorView out, Operand x, const PackedWeight& w, Store store, const char* stage) {
  require_operand(x, w, "gemm: x");
  device::require(out, DType::f32, {x.rows.rows(), w.n}, "gemm: out");
  if (out.empty()) return;
  const int64_t out_bytes = store == Store::add ? 2 * out.bytes() : out.bytes();
  const device::Cost cost{
      .flops = 2 * static_cast<double>(out.elements()) * static_cast<double>(w.k),
      .memory_bytes = static_cast<double>(w.data.bytes() + w.scales.bytes() + x.rows.bytes() + x.scales.bytes() + out_bytes)};
  const auto body = [product = Product(rows_of(x), w), to = out.as<float>(), rows = out.rows(), store,
                     isa = on.stream.device().isa()](device::Parallel& parallel) {
    const int64_t height = block_rows(rows), row_blocks = ceil_div(rows, height);
    const int64_t most = in_place(store, product.n) ? kernels::kMaxBlockTiles : kBufferedTiles;
    const int64_t tiles = product.tiles(), group = block_tiles(tiles, row_blocks, parallel.width(), most);
    const int64_t groups = ceil_div(tiles, group);
    parallel.run(row_blocks * groups, [&](int64_t index, int) {
      const int64_t row = index / groups * height, tile = index % groups * group;
      const Part part{row, std::min(height, rows - row), tile, std::min(group, tiles - tile)};
      compute(kernels::gemm_kernels(isa), product, part, store, to);
    });
  };
  on.launch(stage, cost, body);
}

}  // namespace hocket::ops
