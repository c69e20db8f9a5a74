// What a ubatch's pass reads, built per ubatch from (request, computed, query) triples, never by slicing a built
// structure: a part of a cut request is an ordinary chunk of a chunked prefill.
#pragma once
#include <span>
#include <vector>

#include "dbo/plan.h"
#include "dbo/ubatch.h"
#include "model/model.h"

namespace hocket::engine {

/// A row of logits that will be sampled.
struct LogitRow {
  int32_t plan_row = 0;
  int32_t token_row = 0;  ///< within the ubatch
};

struct UbatchBatch {
  model::Batch batch;
  std::vector<LogitRow> logit_rows;
};

/// Fills tensors in ub.arena for the tokens ub.tokens of the plan. Memory is written now, by the host: nothing that was
/// enqueued may still use the arena. block_size in tokens; vocab sizes the logits.
UbatchBatch build_batch(dbo::Ubatch& ub, const dbo::StepPlan& plan, int64_t block_size, int64_t vocab);
/// Bytes of arena that build_batch() takes at most, logits included.
int64_t batch_bytes(int64_t tokens, int64_t parts, int64_t max_blocks, int64_t logit_rows, int64_t vocab);

}  // namespace hocket::engine
