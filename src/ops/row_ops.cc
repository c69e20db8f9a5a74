#include <fmt/format.h>

#include <cstring>

#include "kernels/cpu/row_kernels.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace hocket::ops {
namespace {

using device::Cost;
using device::DType;
using device::Parallel;
using device::require;
using quant::Bf16;

const kernels::RowKernels* kernels_of(const Lane& on) {
  return &kernels::row_kernels(on.stream.device().isa());
}

/// Cost of a kernel that touches each view once.
Cost streaming(double flops, std::initializer_list<TensorView> views) {
  double bytes = 0;
  for (const TensorView& view : views) bytes += static_cast<double>(view.bytes());
  return {.flops = flops, .memory_bytes = bytes};
}

}  // namespace

void require_index(int32_t id, int64_t limit, std::string_view what) {
  if (id >= 0 && id < limit) return;
  throw Error(Code::internal, fmt::format("{} {} where [0, {}) is expected", what, id, limit));
}

void embed(Lane on, TensorView out, TensorView table, TensorView ids) {
  const int64_t tokens = ids.rows(), hidden = table.dim(1);
  require(ids, DType::i32, {tokens}, "embed: ids");
  require(table, DType::bf16, {table.rows(), hidden}, "embed: table");
  require(out, DType::f32, {tokens, hidden}, "embed: out");
  if (out.empty()) return;
  const auto* kernels = kernels_of(on);
  const Cost cost =
      streaming(0, {out, out.slice(0, tokens / 2), ids});  // the bf16 rows are half of out
  on.launch("embed", cost, [=](Parallel& threads) {
    for_rows(threads, tokens, hidden, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int32_t id = ids.as<int32_t>()[t];
        require_index(id, table.rows(), "embed: token id");
        kernels->widen(hidden, table.as<Bf16>() + id * hidden, out.as<float>() + t * hidden);
      }
    });
  });
}

void rms_norm(Lane on, TensorView out, TensorView x, TensorView w, float eps) {
  const int64_t tokens = x.rows(), hidden = x.dim(1);
  require(x, DType::f32, {tokens, hidden}, "rms_norm: x");
  require(out, DType::bf16, {tokens, hidden}, "rms_norm: out");
  require(w, DType::f32, {hidden}, "rms_norm: w");
  if (out.empty()) return;
  const auto* kernels = kernels_of(on);
  const Cost cost = streaming(4.0 * static_cast<double>(x.elements()), {out, x, w});
  on.launch("rms_norm", cost, [=](Parallel& threads) {
    for_rows(threads, tokens, hidden, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        kernels->rms_norm(hidden, eps, x.as<float>() + t * hidden, w.as<float>(),
                          out.as<Bf16>() + t * hidden);
      }
    });
  });
}

void quantize(Lane on, Operand out, TensorView x) {
  const int64_t tokens = x.rows(), k = x.dim(1),
                groups = (k + quant::kScaleBlock - 1) / quant::kScaleBlock;
  require(x, DType::bf16, {tokens, k}, "quantize: x");
  require(out.rows, DType::bf16, {tokens, k}, "quantize: out.rows");
  require(out.scales, DType::f32, {tokens, groups}, "quantize: out.scales");
  if (x.empty()) return;
  const auto* kernels = kernels_of(on);
  const Cost cost = streaming(2.0 * static_cast<double>(x.elements()), {out.rows, out.scales, x});
  on.launch("quantize", cost, [=](Parallel& threads) {
    for_rows(threads, tokens, k, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        kernels->quantize(k, x.as<Bf16>() + t * k, out.rows.as<Bf16>() + t * k,
                          out.scales.as<float>() + t * groups);
      }
    });
  });
}

void silu_mul(Lane on, TensorView out, TensorView gate_up) {
  const int64_t rows = out.rows(), intermediate = out.dim(1);
  require(out, DType::bf16, {rows, intermediate}, "silu_mul: out");
  require(gate_up, DType::f32, {rows, 2 * intermediate}, "silu_mul: gate_up");
  if (out.empty()) return;
  const auto* kernels = kernels_of(on);
  const Cost cost = streaming(20.0 * static_cast<double>(out.elements()), {out, gate_up});
  on.launch("silu_mul", cost, [=](Parallel& threads) {
    for_rows(threads, rows, 2 * intermediate, [&](int64_t begin, int64_t end) {
      for (int64_t m = begin; m < end; ++m) {
        const float* gate = gate_up.as<float>() + m * 2 * intermediate;
        kernels->silu_mul(intermediate, gate, gate + intermediate,
                          out.as<Bf16>() + m * intermediate);
      }
    });
  });
}

void gather_rows(Lane on, TensorView out, TensorView x, TensorView rows) {
  const int64_t count = rows.rows(), hidden = x.dim(1);
  require(rows, DType::i32, {count}, "gather_rows: rows");
  require(x, DType::f32, {x.rows(), hidden}, "gather_rows: x");
  require(out, DType::f32, {count, hidden}, "gather_rows: out");
  if (out.empty()) return;
  on.launch("gather_rows", streaming(0, {out, out, rows}), [=](Parallel& threads) {
    for_rows(threads, count, hidden, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int32_t row = rows.as<int32_t>()[i];
        require_index(row, x.rows(), "gather_rows: row");
        const auto bytes = static_cast<size_t>(hidden) * sizeof(float);
        std::memcpy(out.as<float>() + i * hidden, x.as<float>() + row * hidden, bytes);
      }
    });
  });
}

void add(Lane on, TensorView x, TensorView y) {
  const int64_t tokens = x.rows(), hidden = x.dim(1);
  require(x, DType::f32, {tokens, hidden}, "add: x");
  require(y, DType::f32, {tokens, hidden}, "add: y");
  if (x.empty()) return;
  const auto* kernels = kernels_of(on);
  on.launch("add", streaming(static_cast<double>(x.elements()), {x, x, y}), [=](Parallel& threads) {
    for_rows(threads, tokens, hidden, [&](int64_t begin, int64_t end) {
      kernels->add((end - begin) * hidden, x.as<float>() + begin * hidden,
                   y.as<float>() + begin * hidden);
    });
  });
}

}  // namespace hocket::ops
