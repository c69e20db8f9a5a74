#include "comm/rows.h"

#include <cmath>

#include "comm/rows_loops.inl"

namespace hocket::comm {
namespace {

void weighted_sum(float* out, const quant::Bf16* const* y, const float* weights, int rows, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int r = 0; r < rows; ++r) sum = std::fma(weights[r], quant::to_float(y[r][i]), sum);
    out[i] = sum;
  }
}

}  // namespace

const RowOps kRowOpsGeneric = {quantise, widen, weighted_sum};

const RowOps& row_ops([[maybe_unused]] Isa isa) {
#ifdef __x86_64__
  if (isa != Isa::generic) return kRowOpsAvx2;  // memory bound: wider vectors bring nothing
#endif
  return kRowOpsGeneric;
}

}  // namespace hocket::comm
