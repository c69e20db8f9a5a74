#include "kernels/cpu/attention_impl.h"
#include "kernels/cpu/attention_tables.h"
#include "kernels/cpu/simd_generic.h"

namespace hocket::kernels {

void attention_generic(const AttentionTask& task) { Attention<GenericLanes>::run(task); }

int64_t attention_scratch(int64_t rows, int64_t head_dim) {
  return Attention<GenericLanes>::scratch(rows, head_dim);  // the same for every set of lanes
}

}  // namespace hocket::kernels
