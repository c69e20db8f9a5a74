#include "kernels/cpu/row_impl.h"
#include "kernels/cpu/row_tables.h"
#include "kernels/cpu/simd_avx512.h"

namespace hocket::kernels {

const RowKernels kRowsAvx512 = Rows<Avx512Lanes>::kTable;

}  // namespace hocket::kernels
