#include "kernels/cpu/attention_impl.h"
#include "kernels/cpu/attention_tables.h"
#include "kernels/cpu/simd_avx2.h"

namespace hocket::kernels {

void attention_avx2(const AttentionTask& task) { Attention<Avx2Lanes>::run(task); }

}  // namespace hocket::kernels
