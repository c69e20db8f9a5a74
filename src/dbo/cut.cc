#include "dbo/cut.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace hocket::dbo {
namespace {

/// Token index where each row begins, and the total at the end.
std::vector<int64_t> boundaries_of(const StepPlan& plan) {
  std::vector<int64_t> starts{0};
  for (const PlanRow& row : plan.rows) starts.push_back(starts.back() + row.query);
  return starts;
}

/// The cuts that leave prefix writers before their readers. The two ends always do.
class LegalCuts {
 public:
  explicit LegalCuts(int64_t tokens) : tokens_(tokens) {}
  LegalCuts(const StepPlan& plan, const std::vector<int64_t>& starts) : tokens_(starts.back()) {
    std::vector<Forbidden> all;
    for (size_t reader = 0; reader < plan.rows.size(); ++reader) {
      const PlanRow& row = plan.rows[reader];
      if (row.writer < 0) continue;
      const int64_t last = starts[static_cast<size_t>(row.writer)] + row.writer_tokens - 1;
      if (last > starts[reader]) all.push_back({starts[reader], last});
    }
    std::sort(all.begin(), all.end(),
              [](const Forbidden& a, const Forbidden& b) { return a.after < b.after; });
    for (const Forbidden& next : all) {  // merged, so that the ends of an entry are legal
      if (!forbidden_.empty() && next.after <= forbidden_.back().last) {
        forbidden_.back().last = std::max(forbidden_.back().last, next.last);
      } else {
        forbidden_.push_back(next);
      }
    }
  }
  bool allow(int64_t cut) const { return around(cut) == nullptr; }
  /// `cut` itself, or the nearest legal one that has tokens on both sides, the later of two; none:
  /// there is no such cut.
  std::optional<int64_t> nearest(int64_t cut) const {
    const Forbidden* here = around(cut);
    if (here == nullptr) return cut;
    const int64_t before = here->after, behind = here->last + 1;
    if (before == 0 && behind == tokens_) return std::nullopt;
    if (before == 0) return behind;
    if (behind == tokens_) return before;
    return behind - cut <= cut - before ? behind : before;
  }

 private:
  /// Cuts c with after < c <= last would run a reader in an earlier ubatch than its writer.
  struct Forbidden {
    int64_t after, last;
  };
  const Forbidden* around(int64_t cut) const {
    for (const Forbidden& one : forbidden_) {
      if (one.after < cut && cut <= one.last) return &one;
    }
    return nullptr;
  }
  int64_t tokens_;
  std::vector<Forbidden> forbidden_;
};

/// The k-th of `ubatches` - 1 cuts would best fall at k / ubatches of the step.
struct Share {
  int64_t k, ubatches;
  int64_t of(int64_t whole) const { return k * whole / ubatches; }
  /// How far `part` of `whole` is from it, times `ubatches`: exact in integers.
  int64_t distance(int64_t part, int64_t whole) const {
    return std::abs(part * ubatches - k * whole);
  }
};

/// The legal boundary between two requests that is nearest to the share in tokens; ties go to the
/// later one.
std::optional<int64_t> boundary_cut(const std::vector<int64_t>& starts, const LegalCuts& legal,
                                    Share share) {
  std::optional<int64_t> best;
  for (size_t row = 1; row + 1 < starts.size(); ++row) {
    if (!legal.allow(starts[row])) continue;
    if (!best || share.distance(starts[row], starts.back()) <= share.distance(*best, starts.back()))
      best = starts[row];
  }
  return best;
}

/// Between verify groups: the boundary nearest to the share in requests, so that query lengths stay
/// uniform.
std::optional<int64_t> uniform_cut(const std::vector<int64_t>& starts, const LegalCuts& legal,
                                   Share share) {
  const auto rows = static_cast<int64_t>(starts.size()) - 1;
  const int64_t middle = share.of(rows);
  const auto start = [&](int64_t row) { return starts[static_cast<size_t>(row)]; };
  if (legal.allow(start(middle))) return start(middle);
  for (int64_t distance = 1; distance < rows; ++distance) {
    if (middle + distance < rows && legal.allow(start(middle + distance)))
      return start(middle + distance);
    if (middle - distance > 0 && legal.allow(start(middle - distance)))
      return start(middle - distance);
  }
  return std::nullopt;
}

std::optional<int64_t> one_cut(const StepPlan& plan, const std::vector<int64_t>& starts,
                               const LegalCuts& legal, Share share, const CutPolicy& policy) {
  const int64_t tokens = starts.back();
  if (plan.uniform_query > 0) return uniform_cut(starts, legal, share);
  if (policy.kind == CutKind::token) return legal.nearest(share.of(tokens));
  const std::optional<int64_t> boundary = boundary_cut(starts, legal, share);
  if (policy.kind == CutKind::request) return boundary;
  // The edge of the tolerance counts as inside: the slack is for products that are not exact in
  // binary.
  const double reach = policy.snap_tolerance * static_cast<double>(tokens * share.ubatches) + 1e-6;
  const bool snaps = boundary && static_cast<double>(share.distance(*boundary, tokens)) <= reach;
  return snaps ? boundary : legal.nearest(share.of(tokens));
}

std::vector<TokenRange> ranges_of(const StepPlan& plan, const std::vector<int64_t>& starts,
                                  const LegalCuts& legal, int64_t ubatches,
                                  const CutPolicy& policy) {
  std::vector<TokenRange> ranges;
  int64_t begin = 0;
  for (int64_t k = 1; k < ubatches; ++k) {
    const std::optional<int64_t> at = one_cut(plan, starts, legal, {k, ubatches}, policy);
    if (!at) {  // one-sided
      ranges.assign(static_cast<size_t>(ubatches), {starts.back(), starts.back()});
      ranges[0].begin = 0;
      return ranges;
    }
    ranges.push_back({begin, *at});
    begin = *at;
  }
  ranges.push_back({begin, starts.back()});
  return ranges;
}

bool any_empty(const std::vector<TokenRange>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const TokenRange& range) { return range.size() == 0; });
}

}  // namespace

Cut cut(const StepPlan& plan, int ubatches, const CutPolicy& policy) {
  if (ubatches < 1)
    throw InvariantError("a step is cut into " + std::to_string(ubatches) +
                         " ubatches: at least 1");
  const std::vector<int64_t> starts = boundaries_of(plan);
  const int64_t tokens = starts.back();
  Cut result{ranges_of(plan, starts, LegalCuts(plan, starts), ubatches, policy)};
  if (!any_empty(result.ranges)) return result;
  if (tokens < ubatches) {
    result.cause = tokens == 0 ? CutCause::idle : CutCause::shortage;
  } else {  // would it be empty without prefix readers, too?
    const bool anyway = any_empty(ranges_of(plan, starts, LegalCuts(tokens), ubatches, policy));
    result.cause = anyway ? CutCause::request_cut : CutCause::kv_order;
  }
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
