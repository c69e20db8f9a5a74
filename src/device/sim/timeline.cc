#include "device/sim/timeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::device::sim {

Nanos overlap(const Span& a, const Span& b) {
  return std::max(Nanos(0), std::min(a.end, b.end) - std::max(a.begin, b.begin));
}

const Span& Timeline::at(std::string_view name) const {
  const auto found = std::find_if(spans_.begin(), spans_.end(),
                                  [name](const Span& span) { return span.name == name; });
  if (found == spans_.end())
    throw InvariantError(fmt::format("no span {} among {}", name, spans_.size()));
  return *found;
}

Nanos Timeline::end() const {
  Nanos last{0};
  for (const Span& span : spans_) last = std::max(last, span.end);
  return last;
}

Nanos Timeline::busy(std::string_view lane) const {
  Nanos sum{0};
  for (const Span& span : spans_) {
    if (span.lane == lane) sum += span.length();
  }
  return sum;
}

}  // namespace hocket::device::sim
