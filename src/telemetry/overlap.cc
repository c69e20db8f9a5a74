#include "telemetry/overlap.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace hocket::telemetry {
namespace {

using Spans = std::vector<const TraceSpan*>;

bool earlier(const TraceSpan* a, const TraceSpan* b) {
  return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->end_ns < b->end_ns;
}

struct Interval {
  int64_t begin, end;
};

/// The union of sorted spans, as intervals that do not touch.
std::vector<Interval> merged(const Spans& spans) {
  std::vector<Interval> out;
  for (const TraceSpan* span : spans) {
    if (span->end_ns <= span->begin_ns) continue;
    if (!out.empty() && span->begin_ns <= out.back().end) {
      out.back().end = std::max(out.back().end, span->end_ns);
    } else {
      out.push_back({span->begin_ns, span->end_ns});
    }
  }
  return out;
}

int64_t length(const std::vector<Interval>& intervals) {
  int64_t sum = 0;
  for (const Interval& interval : intervals) sum += interval.end - interval.begin;
  return sum;
}

/// How much of [begin, end) is in `busy`.
int64_t covered(int64_t begin, int64_t end, const std::vector<Interval>& busy) {
  int64_t sum = 0;
  auto at = std::lower_bound(busy.begin(), busy.end(), begin,
                             [](const Interval& interval, int64_t time) { return interval.end <= time; });
  for (; at != busy.end() && at->begin < end; ++at) sum += std::min(end, at->end) - std::max(begin, at->begin);
  return sum;
}

/// The spans of one step of one rank.
struct Step {
  int rank = 0;
  std::string name;
  int64_t begin = 0, end = 0;
  Spans compute, comm;
};

StepOverlap measure(const Step& step, const std::vector<Interval>& busy) {
  StepOverlap out{.rank = step.rank, .name = step.name, .begin_ns = step.begin, .times = {}, .layers = {}};
  int64_t reached = std::numeric_limits<int64_t>::min();  // an instant of two transfers counts for the first
  for (const TraceSpan* span : step.comm) {
    const int64_t begin = std::max(span->begin_ns, reached);
    if (span->end_ns <= begin) continue;
    reached = span->end_ns;
    const int64_t all = span->end_ns - begin;
    const int64_t exposed = all - covered(begin, span->end_ns, busy);
    LayerOverlap& layer = out.layers[layer_of(span->name)];
    layer.comm_ns += all;
    layer.exposed_ns += exposed;
    out.times.comm_ns += all;
    out.times.exposed_ns += exposed;
  }
  out.times.compute_ns = length(busy);
  out.times.length_ns = step.end - step.begin;
  out.times.serial_ns = out.times.compute_ns + out.times.comm_ns;
  out.times.bound_ns = std::max(out.times.compute_ns, out.times.comm_ns);
  return out;
}

std::string name_at(const Spans& spans, int64_t time, int64_t TraceSpan::* which) {
  for (const TraceSpan* span : spans) {
    if (span->*which == time && span->end_ns > span->begin_ns) return span->name;
  }
  return {};
}

std::string beside(const Spans& comm, int64_t begin, int64_t end) {
  int64_t most = 0;
  const TraceSpan* found = nullptr;
  for (const TraceSpan* span : comm) {
    const int64_t shared = std::min(end, span->end_ns) - std::max(begin, span->begin_ns);
    if (shared > most) {
      most = shared;
      found = span;
    }
  }
  return found != nullptr ? found->name : "";
}

void keep_longest(std::vector<Gap>& gaps, size_t count) {
  std::stable_sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) { return a.length() > b.length(); });
  if (gaps.size() > count) gaps.resize(count);
}

std::vector<Gap> gaps_of(const Step& step, const std::vector<Interval>& busy, size_t count) {
  std::vector<Gap> gaps;
  int64_t idle_since = step.begin;
  const auto add = [&](int64_t until) {
    if (until > idle_since) gaps.push_back({step.rank, step.name, idle_since, until, {}, {}, {}});
  };
  for (const Interval& interval : busy) {
    add(interval.begin);
    idle_since = std::max(idle_since, interval.end);
  }
  add(step.end);
  keep_longest(gaps, count);
  for (Gap& gap : gaps) {
    gap.after = name_at(step.compute, gap.begin_ns, &TraceSpan::end_ns);
    gap.before = name_at(step.compute, gap.end_ns, &TraceSpan::begin_ns);
    gap.beside = beside(step.comm, gap.begin_ns, gap.end_ns);
  }
  return gaps;
}

void add_span(Step& step, const TraceSpan* span) {
  if (span->lane == "compute") step.compute.push_back(span);
  if (is_communication(*span)) step.comm.push_back(span);
}

/// The steps of one rank, by begin. `spans` sorted.
std::vector<Step> steps_of(int rank, const Spans& spans) {
  std::vector<Step> steps;
  for (const TraceSpan* span : spans) {
    if (is_step(*span)) steps.push_back({rank, span->name, span->begin_ns, span->end_ns, {}, {}});
  }
  if (steps.empty()) {
    Step whole{rank, "whole trace", spans.front()->begin_ns, spans.front()->end_ns, {}, {}};
    for (const TraceSpan* span : spans) {
      whole.end = std::max(whole.end, span->end_ns);
      add_span(whole, span);
    }
    steps.push_back(std::move(whole));
    return steps;
  }
  for (const TraceSpan* span : spans) {
    auto after = std::upper_bound(steps.begin(), steps.end(), span->begin_ns,
                                  [](int64_t time, const Step& step) { return time < step.begin; });
    if (after == steps.begin()) continue;
    if (Step& step = *--after; span->begin_ns < step.end) add_span(step, span);
  }
  return steps;
}

}  // namespace

OverlapTimes& OverlapTimes::operator+=(const OverlapTimes& other) {
  length_ns += other.length_ns;
  compute_ns += other.compute_ns;
  comm_ns += other.comm_ns;
  exposed_ns += other.exposed_ns;
  serial_ns += other.serial_ns;
  bound_ns += other.bound_ns;
  return *this;
}

std::optional<double> OverlapTimes::efficiency() const {
  if (serial_ns == bound_ns) return std::nullopt;
  return static_cast<double>(serial_ns - length_ns) / static_cast<double>(serial_ns - bound_ns);
}

OverlapReport analyse_overlap(std::span<const TraceSpan> spans, size_t max_gaps) {
  std::map<int, Spans> by_rank;
  for (const TraceSpan& span : spans) by_rank[span.rank].push_back(&span);
  OverlapReport report;
  for (auto& [rank, own] : by_rank) {
    std::stable_sort(own.begin(), own.end(), earlier);
    for (const Step& step : steps_of(rank, own)) {
      const std::vector<Interval> busy = merged(step.compute);
      StepOverlap measured = measure(step, busy);
      report.ranks[rank] += measured.times;
      report.total += measured.times;
      for (const auto& [layer, times] : measured.layers) {
        report.layers[layer].comm_ns += times.comm_ns;
        report.layers[layer].exposed_ns += times.exposed_ns;
      }
      report.steps.push_back(std::move(measured));
      for (Gap& gap : gaps_of(step, busy, max_gaps)) report.gaps.push_back(std::move(gap));
      if (report.gaps.size() > 4 * max_gaps + 64) keep_longest(report.gaps, max_gaps);
    }
  }
  keep_longest(report.gaps, max_gaps);
  return report;
}

int layer_of(std::string_view name) {
  const size_t at = name.find("/L");
  if (at == std::string_view::npos) return -1;
  int layer = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + at + 2, end, layer);
  return error == std::errc() && stop != end && *stop == '/' ? layer : -1;
}

bool is_step(const TraceSpan& span) { return span.lane == "host" && span.name.starts_with("step "); }

bool is_communication(const TraceSpan& span) { return span.lane.starts_with("comm") || span.lane.starts_with("link"); }

}  // namespace hocket::telemetry
