#include "dbo/cut.h"

#include <algorithm>
#include <cmath>

namespace hocket::dbo {
namespace {

/// Token index where each row begins, and the total at the end.
std::vector<int64_t> boundaries_of(const StepPlan& plan) {
  std::vector<int64_t> starts{0};
  for (const PlanRow& row : plan.rows) starts.push_back(starts.back() + row.query);
  return starts;
}

/// The request boundary nearest to k * T / N; ties go to the later one.
int64_t nearest_boundary(const std::vector<int64_t>& starts, int64_t k, int64_t ubatches) {
  const int64_t target = k * starts.back();  // distances are compared times N, in integers
  int64_t best = 0;
  for (int64_t start : starts) {
    if (std::abs(start * ubatches - target) <= std::abs(best * ubatches - target)) best = start;
  }
  return best;
}

int64_t wanted_cut(const StepPlan& plan, const std::vector<int64_t>& starts, int64_t k, int64_t ubatches,
                   const CutPolicy& policy) {
  const int64_t tokens = starts.back();
  if (plan.uniform_query > 0) {  // query lengths stay uniform: no verify group is divided
    return starts[static_cast<size_t>(k * static_cast<int64_t>(plan.rows.size()) / ubatches)];
  }
  const int64_t even = k * tokens / ubatches;
  if (policy.kind == CutKind::token) return even;
  const int64_t boundary = nearest_boundary(starts, k, ubatches);
  if (policy.kind == CutKind::request) return boundary;
  const double share = static_cast<double>(boundary) / static_cast<double>(tokens);
  const double ideal = static_cast<double>(k) / static_cast<double>(ubatches);
  return std::fabs(share - ideal) <= policy.snap_tolerance + 1e-12 ? boundary : even;
}

/// Cuts c with after < c <= last would run a prefix reader before its writer.
struct Forbidden {
  int64_t after, last;
};

std::vector<Forbidden> forbidden_cuts(const StepPlan& plan, const std::vector<int64_t>& starts) {
  std::vector<Forbidden> all;
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    const int32_t writer = plan.rows[row].writer;
    if (writer < 0 || static_cast<size_t>(writer) < row) continue;
    all.push_back({starts[row], starts[static_cast<size_t>(writer)] + plan.rows[row].writer_tokens - 1});
  }
  return all;
}

bool legal(int64_t cut, const std::vector<Forbidden>& forbidden) {
  return std::none_of(forbidden.begin(), forbidden.end(),
                      [cut](const Forbidden& f) { return f.after < cut && cut <= f.last; });
}

/// The legal cut nearest to `cut`, the later one of two; 0 and `tokens` are always legal.
int64_t nearest_legal(int64_t cut, int64_t tokens, const std::vector<Forbidden>& forbidden) {
  for (int64_t distance = 0;; ++distance) {
    if (cut + distance <= tokens && legal(cut + distance, forbidden)) return cut + distance;
    if (cut - distance >= 0 && legal(cut - distance, forbidden)) return cut - distance;
  }
}

CutCause cause_of(const std::vector<int64_t>& cuts, const std::vector<int64_t>& starts) {
  const int64_t tokens = starts.back();
  if (tokens == 0) return CutCause::idle;
  if (tokens <= static_cast<int64_t>(cuts.size())) return CutCause::shortage;  // fewer tokens than ubatches
  for (int64_t cut : cuts) {
    if (!std::binary_search(starts.begin(), starts.end(), cut)) return CutCause::request_cut;
  }
  return CutCause::none;
}

}  // namespace

Cut cut(const StepPlan& plan, int ubatches, const CutPolicy& policy) {
  const std::vector<int64_t> starts = boundaries_of(plan);
  const std::vector<Forbidden> forbidden = forbidden_cuts(plan, starts);
  const int64_t tokens = starts.back();
  std::vector<int64_t> cuts;
  bool interior = false;  // is any cut strictly inside the step
  for (int64_t k = 1; k < ubatches; ++k) {
    int64_t at = nearest_legal(wanted_cut(plan, starts, k, ubatches, policy), tokens, forbidden);
    at = std::max(at, cuts.empty() ? 0 : cuts.back());
    interior |= at > 0 && at < tokens;
    cuts.push_back(at);
  }
  Cut result{{}, cause_of(cuts, starts)};
  if (!interior && !forbidden.empty()) {  // no legal cut is left: one-sided, everything in the first ubatch
    std::fill(cuts.begin(), cuts.end(), tokens);
    result.cause = CutCause::kv_order;
  }
  int64_t begin = 0;
  for (int64_t at : cuts) {
    result.ranges.push_back({begin, at});
    begin = at;
  }
  result.ranges.push_back({begin, tokens});
  return result;
}

std::vector<Part> parts_of(const StepPlan& plan, TokenRange range) {
  std::vector<Part> parts;
  int64_t start = 0;
  for (size_t row = 0; row < plan.rows.size(); ++row) {
    const int64_t end = start + plan.rows[row].query;
    const int64_t first = std::max(start, range.begin);
    const int64_t last = std::min(end, range.end);
    if (first < last) parts.push_back({static_cast<int32_t>(row), first - start, last - first});
    start = end;
  }
  return parts;
}

}  // namespace hocket::dbo
