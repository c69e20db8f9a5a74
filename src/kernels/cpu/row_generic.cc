#include "kernels/cpu/row_impl.h"
#include "kernels/cpu/row_tables.h"
#include "kernels/cpu/simd_generic.h"

namespace hocket::kernels {

const RowKernels kRowsGeneric = Rows<GenericLanes>::kTable;

}  // namespace hocket::kernels
