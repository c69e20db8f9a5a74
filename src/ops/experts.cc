#include <vector>

#include <fmt/format.h>

#include "kernels/cpu/row_kernels.h"
#include "ops/gemm_parts.h"

namespace hocket::ops {
namespace {

using device::DType;
using kernels::kMaxBlockRows;
using kernels::kTileColumns;
using quant::Bf16;
using quant::kScaleBlock;

/// Of the first pass, which needs room for gate and up.
constexpr int kMaxActivatedTiles = 8;

/// What the launch captures. Two passes over (rows of one expert, some tiles): x to activated rows, those to y.
struct Experts {
  Bf16* y;
  Rows x;
  const int32_t* counts;
  const int32_t* offsets;
  ExpertWeights weights;
  Bf16* activated;           ///< [capacity, I]: silu(gate) * up, as e4m3 codes with fp8 weights
  float* activated_scales;   ///< [capacity, ceil(I/128)], or null
  int64_t capacity, hidden, intermediate;
  Isa isa;

  struct Block {
    size_t expert;
    int64_t row, rows;
  };
  std::vector<Block> blocks() const;
  void run(device::Parallel& parallel) const;
  void activate(const Block& block, int64_t tile, int64_t tiles) const;
  void project(const Block& block, int64_t tile, int64_t tiles) const;
};

std::vector<Experts::Block> Experts::blocks() const {
  std::vector<Block> all;
  for (size_t e = 0; e < weights.gate_up.size(); ++e) {
    const int64_t begin = offsets[e], count = counts[e];
    if (count < 0 || begin < 0 || begin + count > capacity) {
      throw InvariantError(fmt::format("experts: expert {} has rows [{}, {}) of {}", e, begin, begin + count, capacity));
    }
    const int64_t height = block_rows(count);
    for (int64_t row = 0; row < count; row += height) {
      all.push_back({e, begin + row, std::min(height, count - row)});
    }
  }
  return all;
}

/// gate and up of the same columns, then their activation, so that the f32 values never leave the cache.
void Experts::activate(const Block& block, int64_t tile, int64_t tiles) const {
  constexpr int64_t kMaxColumns = kMaxActivatedTiles * kTileColumns;
  alignas(64) float gate[kMaxBlockRows * kMaxColumns], up[kMaxBlockRows * kMaxColumns];
  const auto& table = kernels::gemm_kernels(isa);
  const auto& rows = kernels::row_kernels(isa);
  const int64_t columns = tiles * kTileColumns, first = tile * kTileColumns;
  const Product product(x, weights.gate_up[block.expert]);
  multiply(table, product, {block.row, block.rows, tile, tiles}, gate, columns);
  multiply(table, product, {block.row, block.rows, tile + intermediate / kTileColumns, tiles}, up, columns);
  for (int64_t m = 0; m < block.rows; ++m) {
    const int64_t row = block.row + m;
    Bf16* to = activated + row * intermediate + first;
    if (activated_scales == nullptr) {
      rows.silu_mul(columns, gate + m * columns, up + m * columns, to);
      continue;
    }
    Bf16 wide[kMaxColumns];
    float* scale = activated_scales + row * ceil_div(intermediate, kScaleBlock) + first / kScaleBlock;
    rows.silu_mul(columns, gate + m * columns, up + m * columns, wide);
    rows.quantize(columns, wide, to, scale);
  }
}

void Experts::project(const Block& block, int64_t tile, int64_t tiles) const {
  alignas(64) float c[kMaxBlockRows * kBufferedTiles * kTileColumns];
  const int64_t stride = tiles * kTileColumns, first = tile * kTileColumns;
  const Product product({activated, activated_scales}, weights.down[block.expert]);
  multiply(kernels::gemm_kernels(isa), product, {block.row, block.rows, tile, tiles}, c, stride);
  const auto& rows = kernels::row_kernels(isa);
  const int64_t columns = std::min(stride, hidden - first);
  for (int64_t m = 0; m < block.rows; ++m) {
    rows.narrow(columns, c + m * stride, y + (block.row + m) * hidden + first);
  }
}

void Experts::run(device::Parallel& parallel) const {
  const std::vector<Block> all = blocks();
  const auto count = static_cast<int64_t>(all.size());
  if (count == 0) return;
  const auto pass = [&](int64_t tiles, int64_t group, auto&& step) {
    const int64_t groups = ceil_div(tiles, group);
    parallel.run(count * groups, [&](int64_t index, int) {
      const int64_t tile = index % groups * group;
      step(all[static_cast<size_t>(index / groups)], tile, std::min(group, tiles - tile));
    });
  };
  // With fp8 weights a block of the first pass is a whole scale block of what it writes: 8 tiles.
  const int64_t inner = intermediate / kTileColumns, outer = ceil_div(hidden, kTileColumns);
  const int64_t fair = block_tiles(inner, count, parallel.width(), kMaxActivatedTiles);
  const int64_t group = activated_scales != nullptr ? kScaleBlock / kTileColumns : fair;
  pass(inner, group, [this](const Block& b, int64_t tile, int64_t tiles) { activate(b, tile, tiles); });
  pass(outer, block_tiles(outer, count, parallel.width(), kBufferedTiles),
       [this](const Block& b, int64_t tile, int64_t tiles) { project(b, tile, tiles); });
}

/// Sizes that follow from the first expert; throws ShapeError unless all are alike.
void require_weights(const ExpertWeights& weights, int64_t hidden) {
  const auto& first = weights.gate_up[0];
  const int64_t intermediate = first.n / 2;
  const int64_t step = first.format == WeightFormat::fp8_block ? kScaleBlock : kTileColumns;
  if (first.n % (2 * step) != 0) {
    throw ShapeError(fmt::format("experts: gate_up has {} rows; gate and up need a multiple of {} each", first.n, step));
  }
  for (size_t e = 0; e < weights.gate_up.size(); ++e) {
    const PackedWeight &in = weights.gate_up[e], &out = weights.down[e];
    if (in.format == first.format && out.format == first.format && in.n == first.n && in.k == hidden && out.n == hidden &&
        out.k == intermediate) {
      continue;
    }
    throw ShapeError(fmt::format("experts: expert {} has gate_up [{}, {}] and down [{}, {}] where [{}, {}] and [{}, {}] of "
                                 "one format are expected", e, in.n, in.k, out.n, out.k, first.n, hidden, hidden, intermediate));
  }
}

int64_t activated_bytes(int64_t capacity, int64_t intermediate) {
  return ceil_div(capacity * intermediate * int64_t{sizeof(Bf16)}, 64) * 64;
}

/// Everything, for all rows of the capacity: how many there are is not known when the launch is enqueued.
device::Cost cost_of(const TensorView& y, const Operand& x, const ExpertWeights& weights) {
  const auto rows = static_cast<double>(y.rows());
  device::Cost cost;
  cost.memory_bytes = static_cast<double>(y.bytes() + x.rows.bytes() + x.scales.bytes());
  for (size_t e = 0; e < weights.gate_up.size(); ++e) {
    const PackedWeight &in = weights.gate_up[e], &out = weights.down[e];
    cost.memory_bytes += static_cast<double>(in.data.bytes() + in.scales.bytes() + out.data.bytes() + out.scales.bytes());
  }
  const PackedWeight &in = weights.gate_up[0], &out = weights.down[0];
  cost.flops = 2 * rows * static_cast<double>(in.n * in.k + out.n * out.k);
  return cost;
}

}  // namespace

int64_t experts_scratch_bytes(int64_t capacity, int64_t intermediate, WeightFormat format) {
  const int64_t codes = activated_bytes(capacity, intermediate);
  if (format == WeightFormat::bf16) return codes;
  return codes + capacity * ceil_div(intermediate, kScaleBlock) * int64_t{sizeof(float)};
}

void experts(Lane on, TensorView y, Operand x, TensorView counts, TensorView offsets, ExpertWeights weights,
             TensorView scratch) {
  const auto num_experts = static_cast<int64_t>(weights.gate_up.size());
  if (weights.down.size() != weights.gate_up.size()) throw ShapeError("experts: gate_up and down differ in number");
  if (num_experts == 0 || y.empty()) return;
  const int64_t hidden = weights.gate_up[0].k, intermediate = weights.gate_up[0].n / 2, capacity = y.rows();
  const WeightFormat format = weights.gate_up[0].format;
  require_weights(weights, hidden);
  require_operand(x, weights.gate_up[0], "experts: x");
  device::require(y, DType::bf16, {x.rows.rows(), hidden}, "experts: y");
  device::require(counts, DType::i32, {num_experts}, "experts: counts");
  device::require(offsets, DType::i32, {num_experts + 1}, "experts: offsets");
  const int64_t needed = experts_scratch_bytes(capacity, intermediate, format);
  if (scratch.bytes() < needed) {
    throw ShapeError(fmt::format("experts: scratch {} where {} bytes are needed", scratch.str(), needed));
  }
  Experts work{.y = y.as<Bf16>(),
               .x = rows_of(x),
               .counts = counts.as<int32_t>(),
               .offsets = offsets.as<int32_t>(),
               .weights = weights,
               .activated = reinterpret_cast<Bf16*>(scratch.data),
               .activated_scales = nullptr,
               .capacity = capacity,
               .hidden = hidden,
               .intermediate = intermediate,
               .isa = on.stream.device().isa()};
  if (format == WeightFormat::fp8_block) {
    work.activated_scales = reinterpret_cast<float*>(scratch.data + activated_bytes(capacity, intermediate));
  }
  on.launch("experts", cost_of(y, x, weights), [work](device::Parallel& parallel) { work.run(parallel); });
}

}  // namespace hocket::ops
