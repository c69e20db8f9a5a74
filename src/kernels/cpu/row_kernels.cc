#include "kernels/cpu/row_kernels.h"

#include "base/isa.h"
#include "kernels/cpu/row_tables.h"

namespace hocket::kernels {

const RowKernels& row_kernels(Isa isa) {
  switch (isa) {
    case Isa::generic:
      return kRowsGeneric;
    case Isa::avx2:
      return kRowsAvx2;
    case Isa::avx512:
    case Isa::avx512_bf16:
      return kRowsAvx512;
  }
  return kRowsGeneric;
}

}  // namespace hocket::kernels
