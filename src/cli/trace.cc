// `hocket trace FILE`: overlap figures of a trace, and its picture.
#include <cstdio>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "telemetry/overlap.h"
#include "telemetry/trace_svg.h"

namespace hocket::cli {
namespace {

using telemetry::OverlapReport;
using telemetry::OverlapTimes;
using telemetry::TraceSpan;

constexpr size_t kGaps = 10;

double ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }
std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string efficiency(const OverlapTimes& times) {
  if (times.comm_ns == 0) return "no communication";
  const auto value = times.efficiency();
  return value ? fmt::format("{:.3f}", *value) : "no compute";
}

void print_times(const std::string& who, const OverlapTimes& t) {
  fmt::print("{:<8} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f}  {}\n", who, ms(t.length_ns),
             ms(t.compute_ns), ms(t.comm_ns), ms(t.exposed_ns), ms(t.serial_ns), ms(t.bound_ns), efficiency(t));
}

void print_text(const OverlapReport& report) {
  std::map<std::string, int> steps;
  for (const auto& step : report.steps) ++steps[step.name];
  fmt::print("{} ranks, {} steps. Times in ms, summed over steps; the total also over ranks.\n\n", report.ranks.size(),
             steps.size());
  fmt::print("{:<8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}  {}\n", "", "measured", "compute", "comm", "exposed", "serial",
             "bound", "overlap efficiency");
  for (const auto& [rank, times] : report.ranks) print_times(fmt::format("rank {}", rank), times);
  print_times("total", report.total);
  if (!report.layers.empty()) {
    fmt::print("\n{:<8} {:>10} {:>10}\n", "layer", "comm", "exposed");
    for (const auto& [layer, times] : report.layers) {
      fmt::print("{:<8} {:>10.3f} {:>10.3f}\n", layer < 0 ? "none" : fmt::format("L{}", layer), ms(times.comm_ns),
                 ms(times.exposed_ns));
    }
  }
  if (report.gaps.empty()) return;
  fmt::print("\nLargest gaps of compute\n{:<8} {:<10} {:>10}  {:<22} {:<22} {}\n", "rank", "step", "ms", "after", "before",
             "meanwhile");
  for (const auto& gap : report.gaps) {
    fmt::print("{:<8} {:<10} {:>10.3f}  {:<22} {:<22} {}\n", gap.rank, gap.step, ms(gap.length()),
               gap.after.empty() ? "(step begins)" : gap.after, gap.before.empty() ? "(step ends)" : gap.before,
               or_dash(gap.beside));
  }
}

nlohmann::ordered_json json_of(const OverlapTimes& t) {
  nlohmann::ordered_json object = {{"measured_ns", t.length_ns}, {"compute_ns", t.compute_ns}, {"comm_ns", t.comm_ns},
                                   {"exposed_ns", t.exposed_ns}, {"serial_ns", t.serial_ns},   {"bound_ns", t.bound_ns},
                                   {"efficiency", nullptr}};
  if (const auto value = t.efficiency()) object["efficiency"] = *value;
  return object;
}

void print_json(const OverlapReport& report) {
  nlohmann::ordered_json object = {{"total", json_of(report.total)},
                                   {"ranks", nlohmann::json::array()},
                                   {"steps", nlohmann::json::array()},
                                   {"layers", nlohmann::json::array()},
                                   {"gaps", nlohmann::json::array()}};
  for (const auto& [rank, times] : report.ranks) {
    auto one = json_of(times);
    one["rank"] = rank;
    object["ranks"].push_back(std::move(one));
  }
  for (const auto& step : report.steps) {
    auto one = json_of(step.times);
    one["rank"] = step.rank;
    one["step"] = step.name;
    object["steps"].push_back(std::move(one));
  }
  for (const auto& [layer, times] : report.layers) {
    object["layers"].push_back({{"layer", layer}, {"comm_ns", times.comm_ns}, {"exposed_ns", times.exposed_ns}});
  }
  for (const auto& gap : report.gaps) {
    object["gaps"].push_back({{"rank", gap.rank}, {"step", gap.step}, {"begin_ns", gap.begin_ns}, {"ns", gap.length()},
                              {"after", gap.after}, {"before", gap.before}, {"meanwhile", gap.beside}});
  }
  fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

/// Only one step, of every rank. Fails if no rank has it.
Expected<std::vector<TraceSpan>> only_step(const std::vector<TraceSpan>& spans, const std::string& name,
                                           const std::string& file) {
  std::map<int, std::pair<int64_t, int64_t>> windows;
  for (const TraceSpan& span : spans) {
    if (telemetry::is_step(span) && span.name == name) windows[span.rank] = {span.begin_ns, span.end_ns};
  }
  if (windows.empty()) {
    return fail(Code::bad_input, fmt::format("{}: no span \"{}\" on a lane \"host\". Leave out --step to see the steps.", file, name));
  }
  std::vector<TraceSpan> kept;
  for (const TraceSpan& span : spans) {
    const auto window = windows.find(span.rank);
    if (window == windows.end() || span.begin_ns < window->second.first || span.begin_ns >= window->second.second) continue;
    kept.push_back(span);
  }
  return kept;
}

}  // namespace

int trace(const Options& options) {
  const TraceOptions& asked = options.trace;
  auto spans = telemetry::read_trace(asked.file);
  if (!spans) return report(spans.error());
  std::string step = asked.step ? fmt::format("step {}", *asked.step) : "";
  if (asked.step) {
    auto kept = only_step(*spans, step, asked.file.string());
    if (!kept) return report(kept.error());
    *spans = std::move(*kept);
  }
  const OverlapReport found = telemetry::analyse_overlap(*spans, kGaps);
  asked.output == Output::json ? print_json(found) : print_text(found);
  if (asked.svg.empty()) return 0;
  if (step.empty()) step = telemetry::steady_step(*spans);
  if (auto written = write_file(asked.svg, telemetry::trace_svg(*spans, step)); !written) return report(written.error());
  return 0;
}

}  // namespace hocket::cli
