// The kernels of attention_*.cc, one per instruction set.
#pragma once
#include "kernels/cpu/attention_kernels.h"

namespace hocket::kernels {

void attention_generic(const AttentionTask& task);
void attention_avx2(const AttentionTask& task);
void attention_avx512(const AttentionTask& task);  ///< also for avx512_bf16: products are f32

}  // namespace hocket::kernels
