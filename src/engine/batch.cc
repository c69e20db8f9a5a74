#include "engine/batch.h"

#include <algorithm>

#include "dbo/cut.h"

namespace hocket::engine {
namespace {

using device::DType;

struct Span {  // one part's place in the cache: first position, and the row's blocks
  int64_t start = 0;
  const dbo::PlanRow* row = nullptr;
  int64_t count = 0;
};

int64_t visible_pairs(const Span& part) {
  return part.start * part.count + part.count * (part.count + 1) / 2;
}

void fill_tokens(const Span& part, int64_t first, int64_t block_size, int64_t at, const model::Batch& batch) {
  int32_t* ids = batch.ids.as<int32_t>() + at;
  int32_t* positions = batch.attention.positions.as<int32_t>() + at;
  int32_t* slots = batch.attention.slots.as<int32_t>() + at;
  for (int64_t i = 0; i < part.count; ++i) {
    const int64_t position = part.start + i;
    const int32_t block = part.row->blocks[static_cast<size_t>(position / block_size)];
    ids[i] = part.row->tokens[static_cast<size_t>(first + i)];
    positions[i] = static_cast<int32_t>(position);
    slots[i] = static_cast<int32_t>(block * block_size + position % block_size);
  }
}

}  // namespace

UbatchBatch build_batch(dbo::Ubatch& ub, const dbo::StepPlan& plan, int64_t block_size, int64_t vocab) {
  const std::vector<dbo::Part> parts = dbo::parts_of(plan, ub.tokens);
  const auto num_parts = static_cast<int64_t>(parts.size());
  int64_t max_blocks = 1;
  for (const dbo::Part& part : parts) {
    const dbo::PlanRow& row = plan.rows[static_cast<size_t>(part.row)];
    max_blocks = std::max(max_blocks, (row.computed + part.first + part.count + block_size - 1) / block_size);
  }
  UbatchBatch out;
  model::Batch& batch = out.batch;
  ops::AttentionMeta& meta = batch.attention;
  const int64_t tokens = ub.tokens.size();
  batch.ids = ub.arena.make(DType::i32, {tokens});
  meta.positions = ub.arena.make(DType::i32, {tokens});
  meta.slots = ub.arena.make(DType::i32, {tokens});
  meta.query_start = ub.arena.make(DType::i32, {num_parts + 1});
  meta.seq_lens = ub.arena.make(DType::i32, {num_parts});
  meta.block_table = ub.arena.make(DType::i32, {num_parts, max_blocks});

  int64_t at = 0;
  meta.query_start.as<int32_t>()[0] = 0;
  for (int64_t p = 0; p < num_parts; ++p) {
    const dbo::Part& part = parts[static_cast<size_t>(p)];
    const dbo::PlanRow& row = plan.rows[static_cast<size_t>(part.row)];
    const Span span{row.computed + part.first, &row, part.count};
    fill_tokens(span, part.first, block_size, at, batch);
    at += part.count;
    const int64_t length = span.start + part.count;
    meta.query_start.as<int32_t>()[p + 1] = static_cast<int32_t>(at);
    meta.seq_lens.as<int32_t>()[p] = static_cast<int32_t>(length);
    int32_t* table = meta.block_table.as<int32_t>() + p * max_blocks;
    const int64_t used = (length + block_size - 1) / block_size;
    std::copy_n(row.blocks.begin(), used, table);
    std::fill(table + used, table + max_blocks, -1);
    meta.attention_pairs += visible_pairs(span);
    const bool last = part.first + part.count == row.query;
    if (last && row.samples) out.logit_rows.push_back({part.row, static_cast<int32_t>(at - 1)});
  }
  const auto wanted = static_cast<int64_t>(out.logit_rows.size());
  batch.logit_rows = ub.arena.make(DType::i32, {wanted});
  for (int64_t i = 0; i < wanted; ++i) {
    batch.logit_rows.as<int32_t>()[i] = out.logit_rows[static_cast<size_t>(i)].token_row;
  }
  batch.logits = ub.arena.make(DType::f32, {wanted, vocab});
  return out;
}

int64_t batch_bytes(int64_t tokens, int64_t parts, int64_t max_blocks, int64_t logit_rows, int64_t vocab) {
  const int64_t padding = 64 * 8;  // each tensor starts at a multiple of 64
  return 4 * (3 * tokens + 2 * parts + 1 + parts * max_blocks + logit_rows + logit_rows * vocab) + padding;
}

}  // namespace hocket::engine
