// What one rank runs in one step, before and after cutting. Pure data, built by the scheduler, read by cut().
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dbo/ubatch.h"

namespace hocket::dbo {

/// One request's share of a step: `query` new tokens behind `computed` tokens that are in the KV cache.
struct PlanRow {
  int64_t request = 0;   ///< the scheduler's id
  int64_t computed = 0;  ///< tokens whose K/V exist before the step
  int64_t query = 0;     ///< new tokens, at least 1
  /// KV blocks of positions [0, computed + query); the scheduler's memory, unchanged during the step.
  std::span<const int32_t> blocks{};
  std::span<const int32_t> tokens{};  ///< [query] ids of the new tokens
  /// Rows of this plan that write KV blocks which this row reads (prefix hits of the same step); -1: none.
  /// The last one is enough: chains are allowed.
  int32_t writer = -1;
  int64_t writer_tokens = 0;  ///< how many of the writer's new tokens must be written before this row reads
  bool samples = false;       ///< the last new token is the last known one: its logits are sampled
};

struct StepPlan {
  std::vector<PlanRow> rows;  ///< decodes first, then prefills; writers before readers where possible
  int64_t tokens() const {
    int64_t sum = 0;
    for (const PlanRow& row : rows) sum += row.query;
    return sum;
  }
  /// q if all rows are decodes of the same query length q, else 0. A decode has all but its last q tokens computed.
  int64_t uniform_query = 0;
};

/// What one ubatch holds of one row: new tokens [first, first + count) of it, count >= 1.
struct Part {
  int32_t row = 0;
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const Part&) const = default;
};

}  // namespace hocket::dbo
