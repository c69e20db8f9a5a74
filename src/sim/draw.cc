#include "sim/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace hocket::sim {
namespace {

using device::sim::Nanos;
using device::sim::Span;
using device::sim::Timeline;

struct Box {
  std::string text;  // "att0"
  Nanos begin, end;
};

/// Three letters for the part of a layer that a launch belongs to.
std::string_view group(std::string_view stage) {
  if (stage == "dispatch") return "dis";
  if (stage == "combine") return "com";
  if (stage == "shared") return "sha";
  if (stage == "receive_combine" || stage == "residual") return "fin";
  if (stage == "logits") return "log";
  for (const char* one :
       {"experts", "receive_dispatch", "gate_up", "activation", "down", "prepare_combine"}) {
    if (stage == one) return "exp";
  }
  return "att";
}

/// "u1/L12/gate_up" is "exp1".
std::string text_of(std::string_view name) {
  const std::string_view ubatch = name.substr(1, name.find('/') - 1);
  return fmt::format("{}{}", group(name.substr(name.rfind('/') + 1)), ubatch);
}

std::string_view layer_part(const std::string& name) {
  const size_t first = name.find('/'), last = name.rfind('/');
  return std::string_view(name).substr(first, last - first);
}

std::vector<Box> boxes(const Timeline& timeline, std::string_view lane) {
  std::vector<const Span*> spans;
  for (const Span& span : timeline.spans()) {
    if (span.lane == lane) spans.push_back(&span);
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span* a, const Span* b) { return a->begin < b->begin; });
  std::vector<Box> all;
  std::string_view layer;
  for (const Span* span : spans) {
    std::string text = text_of(span->name);
    const bool same = !all.empty() && all.back().text == text && layer == layer_part(span->name);
    layer = layer_part(span->name);
    if (same) {
      all.back().end = std::max(all.back().end, span->end);
    } else {
      all.push_back({std::move(text), span->begin, span->end});
    }
  }
  return all;
}

}  // namespace

std::string draw(const Timeline& timeline, const DrawOptions& options) {
  const Nanos end = options.end > Nanos(0) ? options.end : timeline.end();
  const double column = static_cast<double>((end - options.begin).count()) / options.columns;
  const auto column_of = [&](Nanos time) {
    const double at = static_cast<double>((time - options.begin).count()) / column;
    return static_cast<int>(std::clamp(at + 0.5, 0.0, static_cast<double>(options.columns)));
  };
  std::string text;
  for (const char* lane : {"compute", "comm", "link"}) {
    std::string line(static_cast<size_t>(options.columns), ' ');
    bool any = false;
    for (const Box& box : boxes(timeline, lane)) {
      if (box.end <= options.begin || box.begin >= end) continue;
      any = true;
      const int from = column_of(box.begin), to = column_of(box.end);
      for (int i = from; i < to; ++i) {
        const auto letter = static_cast<size_t>(i - from);
        const char fill = letter == 0                 ? '|'
                          : letter <= box.text.size() ? box.text[letter - 1]
                                                      : '-';
        line[static_cast<size_t>(i)] = fill;
      }
    }
    if (!any) continue;
    line.erase(line.find_last_not_of(' ') + 1);
    text += fmt::format("{:<8}{}\n", lane, line);
  }
  return text + fmt::format("{:<8}a column is {:.3f} us\n", "", column / 1000);
}

}  // namespace hocket::sim
