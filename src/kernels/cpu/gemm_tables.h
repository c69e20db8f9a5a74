// The tables that gemm_kernels() chooses from; one is defined in each gemm_<instruction set>.cc.
#pragma once
#include "kernels/cpu/gemm.h"

namespace hocket::kernels {

extern const GemmKernels kGemmGeneric, kGemmAvx2, kGemmAvx512, kGemmAvx512Bf16;

}  // namespace hocket::kernels
