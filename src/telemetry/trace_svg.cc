#include "telemetry/trace_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "telemetry/overlap.h"

namespace hocket::telemetry {
namespace {

constexpr double kLeft = 150, kWidth = 1430, kRow = 30, kBox = 24, kTop = 78;
/// Dark and light of each ubatch: blue, orange, green, purple. Source: Okabe and Ito 2008, told apart by colour-blind eyes.
constexpr std::array<std::array<const char*, 2>, 4> kColours{
    {{"#3b7dc4", "#cfe2f6"}, {"#e08a1e", "#fbe3c2"}, {"#2e9e76", "#cdeee2"}, {"#a45c96", "#f0d9ea"}}};
constexpr const char* kNeutral = "#8a8f98";  // spans of no ubatch

enum class Kind : uint8_t { compute, dispatch, combine, other };

int ubatch_of(std::string_view name) {
  return name.size() > 1 && name[0] == 'u' && name[1] >= '0' && name[1] <= '9' ? (name[1] - '0') % 4 : -1;
}
Kind kind_of(const TraceSpan& span) {
  if (span.lane == "compute") return Kind::compute;
  if (!is_communication(span)) return Kind::other;
  return span.name.ends_with("combine") ? Kind::combine : Kind::dispatch;
}
std::string fill_of(const TraceSpan& span) {
  const int ubatch = ubatch_of(span.name);
  if (ubatch < 0) return kNeutral;
  switch (kind_of(span)) {
    case Kind::dispatch: return fmt::format("url(#d{})", ubatch);
    case Kind::combine: return fmt::format("url(#c{})", ubatch);
    default: return kColours[static_cast<size_t>(ubatch)][0];
  }
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
  }
  return out;
}

std::string text_at(double x, double y, std::string_view attributes, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes, escaped(text));
}

/// The spans of the picture and where they stand.
struct Scene {
  std::vector<const TraceSpan*> spans;
  std::map<std::pair<int, std::string>, int> rows;  // (rank, lane), from the top
  int64_t begin = std::numeric_limits<int64_t>::max(), end = std::numeric_limits<int64_t>::min();

  void add(const TraceSpan& span) {
    spans.push_back(&span);
    begin = std::min(begin, span.begin_ns);
    end = std::max(end, span.end_ns);
  }
  void place() {
    // within a rank work flows from compute to comm to link; the map would put comm first
    for (const TraceSpan* span : spans) rows[{span->rank, span->lane}] = 0;
    std::vector<std::pair<int, std::string>> order;
    for (const auto& [key, row] : rows) order.push_back(key);
    const auto depth = [](const std::string& lane) { return lane == "compute" ? 0 : lane.starts_with("comm") ? 1 : 2; };
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return std::pair(a.first, depth(a.second)) < std::pair(b.first, depth(b.second));
    });
    for (size_t i = 0; i < order.size(); ++i) rows[order[i]] = static_cast<int>(i);
  }
  double x(int64_t ns) const {
    const auto length = static_cast<double>(std::max<int64_t>(1, end - begin));
    return kLeft + kWidth * static_cast<double>(ns - begin) / length;
  }
  double y(const TraceSpan& span) const { return kTop + kRow * rows.at({span.rank, span.lane}); }
  double bottom() const { return kTop + kRow * static_cast<double>(rows.size()); }
};

struct Window {
  int64_t begin, end;
};
/// When each rank is in the step.
std::map<int, Window> windows(std::span<const TraceSpan> spans, std::string_view step) {
  std::map<int, Window> out;
  for (const TraceSpan& span : spans) {
    if (is_step(span) && span.name == step) out.insert_or_assign(span.rank, Window{span.begin_ns, span.end_ns});
  }
  return out;
}

Scene scene_of(std::span<const TraceSpan> spans, std::string_view step) {
  Scene scene;
  const auto when = windows(spans, step);
  for (const TraceSpan& span : spans) {
    if (is_step(span)) continue;
    const auto window = when.find(span.rank);
    const bool inside = window != when.end() && span.begin_ns >= window->second.begin && span.begin_ns < window->second.end;
    if (step.empty() || inside) scene.add(span);
  }
  scene.place();
  return scene;
}

std::string definitions() {
  std::string out = "<defs>\n";
  for (size_t i = 0; i < kColours.size(); ++i) {
    const auto& [dark, light] = kColours[i];
    for (const auto& [id, angle] : {std::pair('d', 45), std::pair('c', 135)}) {
      out += fmt::format("<pattern id=\"{}{}\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" "
                         "patternTransform=\"rotate({})\"><rect width=\"8\" height=\"8\" fill=\"{}\"/>"
                         "<rect width=\"{}\" height=\"8\" fill=\"{}\"/></pattern>\n",
                         id, i, angle, light, id == 'd' ? 2 : 4, dark);
    }
  }
  return out + "</defs>\n";
}

std::string legend(const Scene& scene) {
  int ubatches = 0;
  for (const TraceSpan* span : scene.spans) ubatches = std::max(ubatches, ubatch_of(span->name) + 1);
  std::string out;
  double x = kLeft;
  const auto entry = [&](std::string_view fill, const std::string& text) {
    out += fmt::format("<rect x=\"{:.1f}\" y=\"34\" width=\"26\" height=\"14\" fill=\"{}\" stroke=\"#444\"/>\n", x, fill);
    out += text_at(x + 32, 46, "class=\"t\"", text);
    x += 46 + 7.0 * static_cast<double>(text.size());
  };
  for (int u = 0; u < ubatches; ++u) {
    entry(kColours[static_cast<size_t>(u)][0], fmt::format("u{} compute", u));
    entry(fmt::format("url(#d{})", u), fmt::format("u{} dispatch", u));
    entry(fmt::format("url(#c{})", u), fmt::format("u{} combine", u));
  }
  return out;
}

std::string axis(const Scene& scene) {
  const double length = static_cast<double>(std::max<int64_t>(1, scene.end - scene.begin));
  double tick = std::pow(10, std::floor(std::log10(length / 6)));
  for (const double factor : {5.0, 2.0}) {
    if (length / (tick * factor) >= 6) {
      tick *= factor;
      break;
    }
  }
  const bool in_ms = length >= 1e6;
  std::string out;
  for (double at = 0; at <= length; at += tick) {
    const double x = kLeft + kWidth * at / length;
    out += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#d5d8dc\"/>\n", x, kTop - 6,
                       scene.bottom());
    out += text_at(x, kTop - 10, "class=\"t\" text-anchor=\"middle\"",
                   fmt::format("{:g} {}", in_ms ? at / 1e6 : at / 1e3, in_ms ? "ms" : "us"));
  }
  return out;
}

std::string box(const Scene& scene, const TraceSpan& span) {
  const double x = scene.x(span.begin_ns), width = std::max(0.4, scene.x(span.end_ns) - x), y = scene.y(span);
  std::string out = fmt::format(
      "<g><title>{} {:.3f} ms + {:.3f} ms</title><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" "
      "stroke=\"#fff\" stroke-width=\"0.5\"/>",
      escaped(span.name), static_cast<double>(span.begin_ns - scene.begin) / 1e6,
      static_cast<double>(span.end_ns - span.begin_ns) / 1e6, x, y, width, kBox, fill_of(span));
  const size_t slash = span.name.find('/');
  const std::string label = slash == std::string::npos ? span.name : span.name.substr(slash + 1);
  if (width > 6.5 * static_cast<double>(label.size()) + 4) {
    const bool solid = kind_of(span) == Kind::compute;
    out += text_at(x + width / 2, y + 16,
                   solid ? "class=\"b\" fill=\"#fff\" text-anchor=\"middle\""
                         : "class=\"b\" stroke=\"#fff\" stroke-width=\"4\" paint-order=\"stroke\" text-anchor=\"middle\"",
                   label);
  }
  return out + "</g>\n";
}

}  // namespace

std::string steady_step(std::span<const TraceSpan> spans) {
  struct Size {
    size_t count = 0;
    int64_t length = 0;
  };
  std::map<std::string, Size> sizes;
  std::map<int, std::vector<const TraceSpan*>> steps;  // by rank
  for (const TraceSpan& span : spans) {
    if (!is_step(span)) continue;
    steps[span.rank].push_back(&span);
    sizes[span.name].length = std::max(sizes[span.name].length, span.end_ns - span.begin_ns);
  }
  for (auto& [rank, own] : steps) {
    std::sort(own.begin(), own.end(), [](const auto* a, const auto* b) { return a->begin_ns < b->begin_ns; });
  }
  for (const TraceSpan& span : spans) {
    const auto own = steps.find(span.rank);
    if (is_step(span) || own == steps.end()) continue;
    const auto after = std::upper_bound(own->second.begin(), own->second.end(), span.begin_ns,
                                        [](int64_t time, const TraceSpan* step) { return time < step->begin_ns; });
    if (after != own->second.begin() && span.begin_ns < (*std::prev(after))->end_ns) ++sizes[(*std::prev(after))->name].count;
  }
  size_t most = 0;
  for (const auto& [name, size] : sizes) most = std::max(most, size.count);
  std::vector<std::pair<int64_t, std::string>> largest;
  for (const auto& [name, size] : sizes) {
    if (size.count == most) largest.emplace_back(size.length, name);
  }
  std::sort(largest.begin(), largest.end());
  return largest.empty() ? "" : largest[largest.size() / 2].second;
}

std::string trace_svg(std::span<const TraceSpan> spans, std::string_view step) {
  const Scene scene = scene_of(spans, step);
  const double height = scene.bottom() + 20;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0f}\" viewBox=\"0 0 {0} {1:.0f}\">\n"
      "<style>text{{font-family:sans-serif}}.t{{font-size:12px;fill:#222}}.b{{font-size:11px}}.h{{font-size:15px}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kLeft + kWidth + 20, height);
  out += definitions();
  const double length = scene.spans.empty() ? 0 : static_cast<double>(scene.end - scene.begin) / 1e6;
  out += text_at(kLeft, 22, "class=\"h\"", fmt::format("{}, {:.3f} ms", step.empty() ? "whole trace" : step, length));
  if (!scene.spans.empty()) out += legend(scene) + axis(scene);
  for (const auto& [key, row] : scene.rows) {
    out += text_at(12, kTop + kRow * row + 16, "class=\"t\"", fmt::format("rank {}  {}", key.first, key.second));
  }
  for (const TraceSpan* span : scene.spans) out += box(scene, *span);
  return out + "</svg>\n";
}

}  // namespace hocket::telemetry
