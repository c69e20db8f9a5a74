#include "kernels/cpu/row_impl.h"
#include "kernels/cpu/row_tables.h"
#include "kernels/cpu/simd_avx2.h"

namespace hocket::kernels {

const RowKernels kRowsAvx2 = Rows<Avx2Lanes>::kTable;

}  // namespace hocket::kernels
