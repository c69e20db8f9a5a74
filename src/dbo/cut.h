// Where a step is cut into ubatches, and what each ubatch then holds. Pure and local to a rank.
#pragma once
#include <vector>

#include "dbo/plan.h"

namespace hocket::dbo {

enum class CutKind : uint8_t { automatic, token, request };
struct CutPolicy {
  CutKind kind = CutKind::automatic;
  double snap_tolerance = 0.02;  ///< automatic: a request boundary within 1/2 +- this wins over the midpoint
};
/// Why a ubatch is empty, none if none is: no tokens at all; fewer tokens than ubatches; prefix order; or requests are
/// not divided and there are too few of them, or one is too long.
enum class CutCause : uint8_t { none, kv_order, request_cut, idle, shortage };

struct Cut {
  std::vector<TokenRange> ranges;  ///< one per ubatch; contiguous, in order; concatenate to the plan; may be empty
  CutCause cause = CutCause::none;
};
/// Cuts `plan` into `ubatches` >= 1 ranges. A uniform decode is cut at requests only. Cuts between a prefix reader and its
/// later writer are forbidden; if none is left the rank runs one-sided: all tokens in the first range. Source of the
/// boundary rule: SGLang's two-batch overlap, split by balanced sum; of the faults avoided: vLLM #51402, #33694, #43145.
Cut cut(const StepPlan& plan, int ubatches, const CutPolicy& policy);

/// The parts of plan rows that fall into `range`, in order; no empty part. A row cut across ubatches continues as a
/// chunked prefill: the part's tokens start at computed + first.
std::vector<Part> parts_of(const StepPlan& plan, TokenRange range);

}  // namespace hocket::dbo
