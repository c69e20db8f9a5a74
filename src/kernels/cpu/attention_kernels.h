// Causal attention of some queries of one sequence over its paged keys and values, for the query
// heads that share one kv head. What a query gets depends on its visible keys only: not on the
// other queries of the call, nor on the path.
#pragma once
#include <cstdint>

#include "quant/bf16.h"

namespace hocket {
enum class Isa : uint8_t;
}
namespace hocket::kernels {

/// Keys are taken in tiles that begin at multiples of this position.
inline constexpr int64_t kKeyTile = 256;

/// Query i of `queries` is at position first_position + i and sees keys [0, first_position + i].
struct AttentionTask {
  const float* q = nullptr;    ///< head 0 of the group, query 0; heads are `head_dim` apart
  quant::Bf16* out = nullptr;  ///< laid out like q
  int64_t token_stride = 0;    ///< elements from one query to the next, in q and in out
  int64_t queries = 0, first_position = 0;
  int64_t group = 0;                ///< query heads that share the kv head
  int64_t head_dim = 0;             ///< a multiple of 16
  const int32_t* blocks = nullptr;  ///< block table row of the sequence
  int64_t block_size = 0;           ///< a multiple of 16
  int64_t block_stride = 0;         ///< elements from one block to the next, in k and in v
  const quant::Bf16* k = nullptr;   ///< this kv head in block 0: [block_size / 16, head_dim, 16]
  const quant::Bf16* v = nullptr;   ///< this kv head in block 0: [block_size, head_dim]
  float* scratch = nullptr;         ///< attention_scratch() floats
  int64_t rows() const { return queries * group; }
};

/// Floats of scratch that a task of `rows` = queries * group needs. Only its rows and head_dim
/// matter.
int64_t attention_scratch(int64_t rows, int64_t head_dim);

/// Runs one task. Per tile: m_t = max s_j, p_j = exp(s_j - m_t), l_t = sum p_j over 16 lanes, o_t =
/// sum p_j v_j with j ascending; tiles merge in ascending order. s_j = (sum over d ascending of q_d
/// k_jd) / sqrt(head_dim). Pure, thread safe. Source: Dao 2022 (online softmax), Kwon 2023 (paged
/// KV).
using AttentionKernel = void (*)(const AttentionTask&);
AttentionKernel attention_kernel(Isa isa);

}  // namespace hocket::kernels
