// The report as text and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/draw.h"
#include "sim/report.h"

namespace hocket::sim {
namespace {

using device::sim::Timeline;

std::string row(const char* what, double value) {
  return fmt::format("{:<40} {:<10.2f}\n", what, value);
}
std::string row(const char* what, int64_t value) {
  return fmt::format("{:<40} {:<10}\n", what, value);
}
std::string rule(std::string_view title, char fill) {
  const size_t left = (50 - title.size()) / 2, right = 50 - title.size() - left;
  return std::string(left, fill) + std::string(title) + std::string(right, fill) + "\n";
}

/// Linear between the two nearest, as numpy.percentile.
double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - std::floor(at));
}
double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

std::vector<double> first_tokens(const WorkloadResult& result) {
  std::vector<double> all;
  for (const RequestTimes& one : result.requests) all.push_back(one.first_token_ms);
  return all;
}
std::vector<double> token_times(const Workload& workload, const WorkloadResult& result) {
  std::vector<double> all;
  if (workload.output_len < 2) return all;
  for (const RequestTimes& one : result.requests)
    all.push_back((one.total_ms - one.first_token_ms) /
                  static_cast<double>(workload.output_len - 1));
  return all;
}

std::string section(const char* title, const char* what, const std::vector<double>& values) {
  return rule(title, '-') + row(fmt::format("Mean {} (ms):", what).c_str(), mean(values)) +
         row(fmt::format("Median {} (ms):", what).c_str(), percentile(values, 0.5)) +
         row(fmt::format("P99 {} (ms):", what).c_str(), percentile(values, 0.99));
}

const char* phase_name(dbo::Phase phase) {
  return phase == dbo::Phase::decode ? "decode" : "prefill";
}

std::string variants(const std::vector<Variant>& all) {
  std::string text;
  for (const Variant& one : all)
    text += fmt::format("{}{}: {:.3f}", text.empty() ? "" : "  ", one.value, one.ms);
  return text;
}
const Variant& best(const std::vector<Variant>& all) {
  return *std::min_element(all.begin(), all.end(),
                           [](const Variant& a, const Variant& b) { return a.ms < b.ms; });
}

/// Where the layer's first launch of ubatch 0 begins.
std::optional<Nanos> layer_begin(const Timeline& timeline, int64_t layer) {
  const std::string prefix = fmt::format("u0/L{}/", layer);
  for (const auto& span : timeline.spans()) {
    if (span.name.starts_with(prefix)) return span.begin;
  }
  return std::nullopt;
}

nlohmann::ordered_json json_of(const std::optional<int64_t>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}
nlohmann::ordered_json json_of(const std::vector<Variant>& all, const char* key) {
  auto list = nlohmann::ordered_json::array();
  for (const Variant& one : all) list.push_back({{key, one.value}, {"step_ms", one.ms}});
  return list;
}

}  // namespace

std::string benchmark_table(const Workload& workload, const WorkloadResult& result) {
  const double s = result.seconds;
  const int64_t output = workload.prompts * workload.output_len;
  std::string text = rule(" Serving Benchmark Result ", '=');
  text += row("Successful requests:", workload.prompts);
  if (workload.concurrency > 0) text += row("Maximum request concurrency:", workload.concurrency);
  text += row("Benchmark duration (s):", s);
  text += row("Total input tokens:", workload.prompts * workload.input_len);
  text += row("Total generated tokens:", output);
  text += row("Request throughput (req/s):", static_cast<double>(workload.prompts) / s);
  text += row("Output token throughput (tok/s):", static_cast<double>(output) / s);
  text += row("Total Token throughput (tok/s):", result.tokens_per_second(workload));
  text += section("Time to First Token", "TTFT", first_tokens(result));
  if (workload.output_len > 1)
    text +=
        section("Time per Output Token (excl. 1st token)", "TPOT", token_times(workload, result));
  return text + std::string(50, '=') + "\n";
}

std::string layer_picture(const StepModel& model, const RecordedStep& step) {
  const int64_t layer = std::max(model.setup().model.layers / 2, model.setup().model.dense_layers);
  std::string text;
  std::string last;
  for (int rank = 0; rank < model.setup().ranks; ++rank) {
    const Timeline one = timeline(step.graph, step.solution, rank);
    const auto begin = layer_begin(one, layer), end = layer_begin(one, layer + 1);
    if (!begin || !end) continue;
    std::string picture = draw(one, {.begin = *begin, .end = *end});
    if (picture == last) continue;
    text += fmt::format("rank {}, layer {}: {:.3f} ms\n{}", rank, layer,
                        static_cast<double>((*end - *begin).count()) / 1e6, picture);
    last = std::move(picture);
  }
  return text;
}

std::string figures_text(const StepModel& model, const StepShape& shape, const StepFigures& f) {
  const size_t ubatches = shape.ranks.front().size();
  std::string text = fmt::format(
      "step     {:.3f} ms, {} ubatch{}, {}\n", f.step_ms, ubatches, ubatches == 1 ? "" : "es",
      shape.mode == dbo::Mode::high_throughput ? "high throughput" : "low latency");
  text += fmt::format("lanes    compute {:.1f} %   comm {:.1f} %   link {:.1f} %   host {:.1f} %\n",
                      100 * f.compute_use, 100 * f.comm_use, 100 * f.link_use, 100 * f.host_use);
  text += fmt::format("bound    (C+X)/max(C,X) = {:.3f}   C {:.3f} ms, X {:.3f} ms\n", f.bound,
                      f.compute_ms, f.comm_ms);
  text += fmt::format("exposed  {:.3f} ms of communication ({:.1f} % of it)\n", f.exposed_ms,
                      f.comm_ms > 0 ? 100 * f.exposed_ms / f.comm_ms : 0.0);
  text += f.efficiency ? fmt::format("overlap efficiency {:.3f}\n", *f.efficiency)
                       : std::string("overlap efficiency: nothing to overlap\n");
  const double imbalance = model.routing().imbalance();
  if (imbalance > 1.005)
    text += fmt::format("routing  {}: the busiest rank has {:.2f} times the mean of expert rows\n",
                        name(model.setup().routing), imbalance);
  return text;
}

std::string advice_text(const StepModel& model, const Advice& advice) {
  const char* phase = phase_name(advice.phase);
  std::string text = fmt::format("advice for {} steps, {} tokens a rank\n", phase, advice.tokens);
  text += fmt::format("  ubatches   {} ms; best {}\n", variants(advice.ubatches),
                      best(advice.ubatches).value);
  if (!advice.comm_sms.empty())
    text += fmt::format("  comm SMs   {} ms; best {} of {}\n", variants(advice.comm_sms),
                        best(advice.comm_sms).value, model.setup().hardware.sms);
  if (advice.threshold) {
    text +=
        fmt::format("  threshold  --dbo-{}-token-threshold {} (gain {:.0f} %; break-even at {})\n",
                    phase, *advice.threshold, 100 * kMinGain, advice.break_even.value_or(0));
  } else if (advice.break_even) {
    text += fmt::format("  threshold  no step gains {:.0f} %; break-even at {}\n", 100 * kMinGain,
                        *advice.break_even);
  } else {
    text += "  threshold  splitting never pays here: --no-enable-dbo\n";
  }
  return text;
}

std::string setup_text(const StepModel& model, const Workload& workload) {
  const StepSetup& s = model.setup();
  std::string text =
      fmt::format("{} ({}) on {} x {}, routing {}, schedule {}, event {}\n", s.model.name,
                  name(s.model.expert_format), s.ranks, s.hardware.name, name(s.routing),
                  s.schedule == Schedule::hocket ? "hocket" : "vllm",
                  s.capture == EventCapture::before_yield ? "before the yield" : "after the yield");
  if (!s.hardware.calibrated.empty()) {
    text += fmt::format(
        "calibrated: all times x {:.3f} ({}); everything else is data sheets and "
        "assumptions\n",
        s.hardware.slowdown, s.hardware.calibrated);
  } else {
    text += "uncalibrated: all operations, from data sheets and assumed efficiencies\n";
  }
  return text + (workload.policy.enabled ? "" : "DBO off\n");
}

std::string json_report(const StepModel& model, const Workload& workload,
                        const WorkloadResult& result, const StepFigures& f, const Advice& advice) {
  const StepSetup& s = model.setup();
  const std::vector<double> ttft = first_tokens(result), tpot = token_times(workload, result);
  nlohmann::ordered_json json = {{"model", s.model.name},
                                 {"hardware", s.hardware.name},
                                 {"num_gpus", s.ranks},
                                 {"slowdown", s.hardware.slowdown},
                                 {"calibrated", s.hardware.calibrated},
                                 {"routing", name(s.routing)},
                                 {"duration", result.seconds},
                                 {"completed", workload.prompts},
                                 {"total_token_throughput", result.tokens_per_second(workload)},
                                 {"mean_ttft_ms", mean(ttft)},
                                 {"median_ttft_ms", percentile(ttft, 0.5)},
                                 {"p99_ttft_ms", percentile(ttft, 0.99)},
                                 {"mean_tpot_ms", mean(tpot)},
                                 {"steps", result.steps},
                                 {"split_steps", result.split_steps},
                                 {"reasons", result.reasons}};
  json["step"] = {{"ms", f.step_ms},
                  {"compute_ms", f.compute_ms},
                  {"comm_ms", f.comm_ms},
                  {"exposed_ms", f.exposed_ms},
                  {"bound", f.bound},
                  {"efficiency", f.efficiency ? nlohmann::ordered_json(*f.efficiency)
                                              : nlohmann::ordered_json(nullptr)},
                  {"imbalance", model.routing().imbalance()},
                  {"use",
                   {{"host", f.host_use},
                    {"compute", f.compute_use},
                    {"comm", f.comm_use},
                    {"link", f.link_use}}}};
  json["advice"] = {{"phase", phase_name(advice.phase)},
                    {"tokens", advice.tokens},
                    {"ubatches", json_of(advice.ubatches, "ubatches")},
                    {"comm_sms", json_of(advice.comm_sms, "comm_sms")},
                    {"break_even", json_of(advice.break_even)},
                    {"threshold", json_of(advice.threshold)}};
  return json.dump(2) + "\n";
}

}  // namespace hocket::sim
