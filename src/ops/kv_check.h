// What both ops on the paged cache demand of it.
#pragma once
#include "ops/ops.h"

namespace hocket::ops {

/// Throws ShapeError unless head_dim is a multiple of 16 up to 512, block_size a multiple of 16 and
/// k, v have shape.elements() bf16.
void require_cache(const KvCache& cache, std::string_view op);

}  // namespace hocket::ops
