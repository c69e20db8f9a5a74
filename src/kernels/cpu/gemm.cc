#include "kernels/cpu/gemm.h"

#include "kernels/cpu/gemm_tables.h"

namespace hocket::kernels {

const GemmKernels& gemm_kernels(Isa isa) {
  switch (isa) {
    case Isa::generic: return kGemmGeneric;
    case Isa::avx2: return kGemmAvx2;
    case Isa::avx512: return kGemmAvx512;
    case Isa::avx512_bf16: return kGemmAvx512Bf16;
  }
  return kGemmGeneric;
}

}  // namespace hocket::kernels
