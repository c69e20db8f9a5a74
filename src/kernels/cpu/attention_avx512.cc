#include "kernels/cpu/attention_impl.h"
#include "kernels/cpu/attention_tables.h"
#include "kernels/cpu/simd_avx512.h"

namespace hocket::kernels {

void attention_avx512(const AttentionTask& task) { Attention<Avx512Lanes>::run(task); }

}  // namespace hocket::kernels
