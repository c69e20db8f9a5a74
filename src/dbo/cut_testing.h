// Plans for the tests of decisions and cuts.
#pragma once
#include <vector>

#include "dbo/cut.h"

namespace hocket::dbo {

inline StepPlan plan_of(const std::vector<int64_t>& queries) {
  StepPlan plan;
  for (int64_t query : queries) {
    plan.rows.push_back(
        {.request = static_cast<int64_t>(plan.rows.size()), .computed = 0, .query = query});
  }
  return plan;
}
/// `requests` decodes of `query` tokens each.
inline StepPlan decodes(int64_t requests, int64_t query = 1) {
  StepPlan plan = plan_of(std::vector<int64_t>(static_cast<size_t>(requests), query));
  for (PlanRow& row : plan.rows) row.computed = 100;
  plan.uniform_query = requests > 0 ? query : 0;
  return plan;
}
/// Row `reader` of the plan reads the first `tokens` new tokens of row `writer`.
inline void reads(StepPlan& plan, size_t reader, int32_t writer, int64_t tokens) {
  plan.rows[reader].writer = writer;
  plan.rows[reader].writer_tokens = tokens;
}
inline std::vector<int64_t> sizes(const Cut& cut) {
  std::vector<int64_t> all;
  for (const TokenRange& range : cut.ranges) all.push_back(range.size());
  return all;
}
/// Query lengths of the parts that each ubatch holds.
inline std::vector<std::vector<int64_t>> queries_of(const StepPlan& plan, const Cut& cut) {
  std::vector<std::vector<int64_t>> all;
  for (const TokenRange& range : cut.ranges) {
    all.emplace_back();
    for (const Part& part : parts_of(plan, range)) all.back().push_back(part.count);
  }
  return all;
}

}  // namespace hocket::dbo
