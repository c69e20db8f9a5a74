// Weights into the layout of kernels/cpu/gemm.h: tiles of 16 rows, pairs of columns beside each other.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "kernels/cpu/gemm.h"
#include "ops/gemm_parts.h"

namespace hocket::ops {
namespace {

using device::DType;
using kernels::kTileColumns;


int64_t element_bytes(WeightFormat format) { return format == WeightFormat::bf16 ? 2 : 1; }

/// Rows of one tile, `rows` of 16 present; `from` is the first. Sources are mapped files: any alignment.
template <int64_t kBytes>
void pack_tile(const std::byte* from, int64_t rows, int64_t k, std::byte* to) {
  constexpr int64_t kPair = 2 * kBytes;
  if (rows < kTileColumns) std::memset(to, 0, static_cast<size_t>(ceil_div(k, 2) * kTileColumns * kPair));
  for (int64_t j = 0; j < k / 2; ++j) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + (j * kTileColumns + r) * kPair, from + r * k * kBytes + j * kPair, kPair);
    }
  }
  if (k % 2 == 0) return;
  for (int64_t r = 0; r < rows; ++r) {
    std::array<std::byte, kPair> last{};
    std::memcpy(last.data(), from + (r + 1) * k * kBytes - kBytes, kBytes);
    std::memcpy(to + (k / 2 * kTileColumns + r) * kPair, last.data(), kPair);
  }
}

void check_codes(const TensorView& weight) {
  const auto* codes = reinterpret_cast<const uint8_t*>(weight.data);
  bool found = false;
  const int64_t count = weight.elements();
  for (int64_t i = 0; i < count; ++i) found |= (codes[i] & 0x7F) == 0x7F;
  if (!found) return;
  const int64_t at = std::find_if(codes, codes + count, [](uint8_t c) { return (c & 0x7F) == 0x7F; }) - codes;
  throw Error(Code::bad_input, fmt::format("FP8 weight {}: NaN (0x{:02x}) at row {}, column {}: the file is damaged",
                                           weight.str(), codes[at], at / weight.dim(1), at % weight.dim(1)));
}

void check_scale(float scale, const TensorView& scales, int64_t index) {
  if (std::isfinite(scale)) return;
  throw Error(Code::bad_input, fmt::format("FP8 weight scales {}: {} at row {}, column {}: the file is damaged", scales.str(),
                                           scale, index / scales.dim(1), index % scales.dim(1)));
}

/// Checks the parts against the first one; returns the whole weight's sizes.
PackedWeight measure(std::span<const WeightPart> parts) {
  if (parts.empty()) throw ShapeError("pack: no parts");
  PackedWeight whole;
  const DType dtype = parts[0].weight.dtype;
  whole.format = dtype == DType::e4m3 ? WeightFormat::fp8_block : WeightFormat::bf16;
  whole.k = parts[0].weight.rank == 2 ? parts[0].weight.dim(1) : -1;
  const int64_t step = whole.format == WeightFormat::fp8_block ? quant::kScaleBlock : kTileColumns;
  for (const WeightPart& part : parts) {
    if (whole.n % step != 0) {
      throw ShapeError(fmt::format("pack: a part starts at row {}, not a multiple of {}", whole.n, step));
    }
    device::require(part.weight, whole.format == WeightFormat::bf16 ? DType::bf16 : DType::e4m3,
                    {part.weight.rows(), whole.k}, "pack: weight");
    if (whole.format == WeightFormat::fp8_block) {
      device::require(part.scales, DType::f32,
                      {ceil_div(part.weight.rows(), step), ceil_div(whole.k, quant::kScaleBlock)}, "pack: weight scales");
    } else if (part.scales.rank != 0) {
      throw ShapeError(fmt::format("pack: scales {} for a bf16 weight", part.scales.str()));
    }
    whole.n += part.weight.rows();
  }
  return whole;
}

}  // namespace

int64_t packed_bytes(int64_t n, int64_t k, WeightFormat format) {
  return ceil_div(n, kTileColumns) * kTileColumns * ceil_div(k, 2) * 2 * element_bytes(format);
}

PackedWeight pack(std::span<const WeightPart> parts, std::byte* memory, float* scales_memory) {
  PackedWeight whole = measure(parts);
  if (reinterpret_cast<uintptr_t>(memory) % 64 != 0) throw ShapeError("pack: memory is not 64-byte aligned");
  const int64_t bytes = packed_bytes(whole.n, whole.k, whole.format);
  whole.data = TensorView(memory, DType::u8, {bytes});
  if (whole.format == WeightFormat::fp8_block) {
    whole.scales = TensorView(scales_memory, DType::f32,
                              {ceil_div(whole.n, quant::kScaleBlock), ceil_div(whole.k, quant::kScaleBlock)});
  }
  const int64_t width = element_bytes(whole.format);
  std::byte* to = memory;
  for (const WeightPart& part : parts) {
    if (whole.format == WeightFormat::fp8_block) check_codes(part.weight);
    const int64_t rows = part.weight.rows();
    for (int64_t n = 0; n < rows; n += kTileColumns, to += packed_bytes(kTileColumns, whole.k, whole.format)) {
      const std::byte* from = part.weight.data + n * whole.k * width;
      const int64_t present = std::min<int64_t>(kTileColumns, rows - n);
      width == 2 ? pack_tile<2>(from, present, whole.k, to) : pack_tile<1>(from, present, whole.k, to);
    }
    for (int64_t i = 0; i < part.scales.elements(); ++i, ++scales_memory) {
      std::memcpy(scales_memory, part.scales.data + i * 4, sizeof(float));
      check_scale(*scales_memory, part.scales, i);
    }
  }
  return whole;
}

}  // namespace hocket::ops
