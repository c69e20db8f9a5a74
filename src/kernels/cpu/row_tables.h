// The tables of row_*.cc, one per instruction set. Constant initialised.
#pragma once
#include "kernels/cpu/row_kernels.h"

namespace hocket::kernels {

extern const RowKernels kRowsGeneric;
extern const RowKernels kRowsAvx2;
extern const RowKernels kRowsAvx512;  ///< also for avx512_bf16: nothing here multiplies bf16 pairs

}  // namespace hocket::kernels
