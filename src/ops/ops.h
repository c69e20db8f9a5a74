// Every op of a forward pass. An op checks shapes, states its cost, and enqueues one launch on `on.stream`; it returns
// before anything has run. Zero tokens is a normal input. All ops are bitwise independent of the number of rows, of the
// cut, of threads and of the instruction set. Residual stream and intermediate results are f32, operands of matrix
// multiplications bf16 (docs/decisions/001-f32-residual-on-cpu.md).
#pragma once
#include "ops/operand.h"
#include "device/stream.h"

namespace hocket::ops {
using device::Lane;
using device::TensorView;

/// out[t,:] = table[ids[t],:]. out [T, H] f32; table [V, H] bf16; ids [T] i32, each in [0, V).
void embed(Lane on, TensorView out, TensorView table, TensorView ids);

/// out[t,:] = bf16(w * (x[t,:] * rsqrt(mean(x^2) + eps))). out [T, H] bf16; x [T, H] f32; w [H] f32. One rounding.
/// Source: Zhang & Sennrich 2019, eq. 4.
void rms_norm(Lane on, TensorView out, TensorView x, TensorView w, float eps);

/// Per token and 128 columns: s = max(max|x|, 1e-10) / 448, code = e4m3(x / s). out.rows [T, K] bf16 (codes as values),
/// out.scales [T, ceil(K/128)] f32; x [T, K] bf16. Source: published FP8 checkpoints of DeepSeek-V3 and Qwen3.
void quantize(Lane on, Operand out, TensorView x);

/// Packs W for gemm(). weight [N, K] bf16 or e4m3; scales [ceil(N/128), ceil(K/128)] f32 for e4m3, else empty.
/// Row offsets of parts that are concatenated must be multiples of 16 (bf16) or 128 (fp8). Runs at once, on the host.
struct WeightPart {
  TensorView weight, scales;
};
int64_t packed_bytes(int64_t n, int64_t k, WeightFormat format);
/// Packs the parts one below the other (q, k, v; gate, up) into `memory`, 64-byte aligned, packed_bytes() long; fp8
/// scales go to `scales_memory` [ceil(n/128) * ceil(k/128)].
PackedWeight pack(std::span<const WeightPart> parts, std::byte* memory, float* scales_memory);

enum class Store : uint8_t { assign, add };
/// out (=, +=) x Wt. out [M, N] f32. Sum order: docs/invariance.md. `stage` names the launch: a string literal.
/// Throws ShapeError, also for bf16 weights with activation scales.
void gemm(Lane on, TensorView out, Operand x, const PackedWeight& w, Store store = Store::assign,
          const char* stage = "gemm");

/// Routed experts of one rank: y[r,:] = bf16(down_e(silu(gate_e x) * up_e x)) for the rows of each local expert.
/// y [capacity, H] bf16; x.rows [capacity, H]; counts [E] i32, offsets [E + 1] i32, read when the launch runs;
/// gate_up: per expert [2I, H], gate rows first; down: per expert [H, I]. Scratch comes from `scratch`, at least
/// experts_scratch_bytes(capacity, I) long. With fp8 weights the SwiGLU result is quantised per 128 columns,
/// and I must be a multiple of 128 (bf16: of 16). Throws ShapeError; bad counts fail the launch with InvariantError.
struct ExpertWeights {
  std::span<const PackedWeight> gate_up, down;
};
int64_t experts_scratch_bytes(int64_t capacity, int64_t intermediate, WeightFormat format);
void experts(Lane on, TensorView y, Operand x, TensorView counts, TensorView offsets, ExpertWeights weights,
             TensorView scratch);

/// out[m,:] = bf16(silu(gate_up[m, :I]) * gate_up[m, I:]). out [M, I] bf16; gate_up [M, 2I] f32.
void silu_mul(Lane on, TensorView out, TensorView gate_up);

enum class Normalize : uint8_t { off, on };
/// Softmax over all E, then the k largest (equal scores: lower id), written in ascending expert id; weights divided by
/// their sum if asked. expert [T, k] i32; weight [T, k] f32; x [T, H] bf16; gate [E, H] f32.
void router(Lane on, TensorView expert, TensorView weight, TensorView x, TensorView gate, Normalize normalize);

/// out[i,:] = x[rows[i],:]. out [R, H] f32; x [T, H] f32; rows [R] i32.
void gather_rows(Lane on, TensorView out, TensorView x, TensorView rows);

/// x += y, both [T, H] f32.
void add(Lane on, TensorView x, TensorView y);

/// One layer's paged KV cache. Blocks hold `block_size` tokens (a multiple of 16).
/// k: [blocks, kv_heads, block_size/16, head_dim, 16] bf16 (16 tokens beside each other); v: [blocks, kv_heads,
/// block_size, head_dim] bf16. Both as flat views; sizes come from `shape`.
struct KvShape {
  int64_t blocks = 0, block_size = 16;
  int kv_heads = 0, head_dim = 0;
  int64_t elements() const { return blocks * block_size * kv_heads * head_dim; }  ///< of k, and of v
};
struct KvCache {
  KvShape shape;
  TensorView k, v;
};

/// A ubatch's attention metadata, built per ubatch from (request, computed, query) triples. P parts, T tokens.
struct AttentionMeta {
  TensorView positions;    ///< [T] i32
  TensorView slots;        ///< [T] i32: block * block_size + offset, where this token's K/V goes
  TensorView query_start;  ///< [P + 1] i32
  TensorView seq_lens;     ///< [P] i32: computed + query length of the part
  TensorView block_table;  ///< [P, max_blocks] i32
  int64_t attention_pairs = 0;  ///< sum over parts of visible (query, key) pairs, for the cost
};

/// Per head RMSNorm of q and k, half-form RoPE, q out and K, V into the cache.
/// q [T, heads, head_dim] f32; qkv [T, (heads + 2 kv_heads) * head_dim] f32; q_norm, k_norm [head_dim] f32;
/// inv_freq [head_dim / 2] f32.
struct QkvWeights {
  TensorView q_norm, k_norm, inv_freq;
  float eps = 1e-6F;
};
void qk_norm_rope_store(Lane on, TensorView q, TensorView qkv, const QkvWeights& weights, const AttentionMeta& meta,
                        const KvCache& cache);

/// Causal grouped-query attention over the paged cache. out [T, heads * head_dim] bf16; q [T, heads, head_dim] f32.
/// Key tiles are anchored at absolute positions (multiples of 256) and merged in ascending order, so prefill, chunked
/// prefill, decode and any cut give equal bits. Source: Dao 2022 (online softmax), Kwon 2023 (paged KV).
void attention(Lane on, TensorView out, TensorView q, const AttentionMeta& meta, const KvCache& cache);

}  // namespace hocket::ops
