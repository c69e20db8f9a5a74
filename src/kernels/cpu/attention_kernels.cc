#include "kernels/cpu/attention_kernels.h"

#include "base/isa.h"
#include "kernels/cpu/attention_tables.h"

namespace hocket::kernels {

AttentionKernel attention_kernel(Isa isa) {
  switch (isa) {
    case Isa::generic:
      return attention_generic;
    case Isa::avx2:
      return attention_avx2;
    case Isa::avx512:
    case Isa::avx512_bf16:
      return attention_avx512;
  }
  return attention_generic;
}

}  // namespace hocket::kernels
