// Does overlap pay, and as much as predicted? Two ranks of one compute thread each run a model of random weights over an
// emulated link whose speed makes communication 20, 35 and 50 % of the serial time; the same link serves overlap off and on.
// The model is the bundled one with more and wider layers and one expert a rank that every token visits: ranks with equal
// loads, because what waiting for a busier rank costs is not what overlap can hide. Needs two idle cores.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/offline.h"
#include "dbo/exchange.h"
#include "dbo/run.h"
#include "device/recorder.h"
#include "device/sim/virtual_device.h"
#include "telemetry/overlap.h"

namespace hocket {
namespace {

namespace fs = std::filesystem;
using telemetry::TraceSpan;

constexpr int kLayers = 16, kPromptTokens = 512, kPromptsPerStep = 8, kSteps = 5, kRounds = 2;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("hocket-overlap-{}", getpid())) {
    const fs::path source = HOCKET_SOURCE_DIR "/models/tiny-moe-fp8";
    fs::create_directory(path_);
    fs::copy_file(source / "tokenizer.json", path_ / "tokenizer.json");
    auto config = nlohmann::json::parse(std::ifstream(source / "config.json"));
    config["num_hidden_layers"] = kLayers;
    config["num_local_experts"] = config["num_experts_per_tok"] = 2;
    config["moe_intermediate_size"] = 768;
    std::ofstream(path_ / "config.json") << config;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Stages {  // ns of a step on one rank
  double head = 0, attention = 0, experts = 0, rest = 0, tail = 0, dispatch = 0, combine = 0;
};

struct Step {  // means of the ranks, ms
  double measured = 0, compute = 0, comm = 0, exposed = 0, efficiency = 0, wire_bytes = 0;
  Stages stages;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}
template <class Get>
double median_of(const std::vector<Step>& steps, Get get) {
  std::vector<double> values;
  for (const Step& step : steps) values.push_back(get(step));
  return median(std::move(values));
}

/// Adds one span to its stage. A layer is attention up to the arrival of the dispatch, experts, and the sum at home.
void add_stage(Stages& stages, const TraceSpan& span, double share, bool before_layers) {
  const double ns = static_cast<double>(span.end_ns - span.begin_ns) * share;
  const bool late = span.name.ends_with("unpack") || span.name.ends_with("experts");
  if (span.lane == "link") {
    (span.name.ends_with("combine") ? stages.combine : stages.dispatch) += ns;
  } else if (span.lane != "compute") {
    return;  // the copy into the message: hidden or not, it is in the measured figures
  } else if (telemetry::layer_of(span.name) < 0) {
    (before_layers ? stages.head : stages.tail) += ns;
  } else if (late) {
    stages.experts += ns;
  } else {
    (span.name.ends_with("home_sum") || span.name.ends_with("add") ? stages.rest : stages.attention) += ns;
  }
}

Step step_of(const std::vector<TraceSpan>& spans, const std::string& name) {
  Step out;
  telemetry::OverlapTimes times;
  std::vector<TraceSpan> kept;
  int ranks = 0;
  for (const TraceSpan& step : spans) {
    if (!telemetry::is_step(step) || step.name != name) continue;
    ++ranks;
    bool before = true;
    for (const TraceSpan& span : spans) {
      if (span.rank != step.rank || span.begin_ns < step.begin_ns || span.begin_ns >= step.end_ns) continue;
      kept.push_back(span);
      before = before && (span.lane != "compute" || telemetry::layer_of(span.name) < 0);
      add_stage(out.stages, span, 0.5, before);
      if (span.lane != "link") continue;
      for (const auto& [key, value] : span.args) out.wire_bytes += key == "wire_bytes" ? static_cast<double>(value) / 2 : 0;
    }
  }
  times = telemetry::analyse_overlap(kept, 0).total;
  const double scale = 1e-6 / std::max(1, ranks);
  out.measured = static_cast<double>(times.length_ns) * scale;
  out.compute = static_cast<double>(times.compute_ns) * scale;
  out.comm = static_cast<double>(times.comm_ns) * scale;
  out.exposed = static_cast<double>(times.exposed_ns) * scale;
  out.efficiency = times.efficiency().value_or(0);
  return out;
}

std::vector<Step> full_steps(const std::vector<TraceSpan>& spans) {
  std::vector<const TraceSpan*> all;
  int64_t longest = 0;
  for (const TraceSpan& span : spans) {
    if (!telemetry::is_step(span) || span.rank != 0) continue;
    all.push_back(&span);
    longest = std::max(longest, span.end_ns - span.begin_ns);
  }
  std::vector<Step> steps;
  for (size_t i = 1; i + 1 < all.size(); ++i) {  // the first warms up, the last may be part of a batch
    if (2 * (all[i]->end_ns - all[i]->begin_ns) > longest) steps.push_back(step_of(spans, all[i]->name));
  }
  return steps;
}

std::vector<Step> run(const fs::path& model, comm::Link link, engine::Switch dbo) {
  device::Recorder recorder;
  auto tokenizer = text::Tokenizer::load(model / "tokenizer.json");
  if (!tokenizer) throw Error(tokenizer.error().code, tokenizer.error().message);
  telemetry::Metrics metrics;
  engine::Config config;
  config.model = model;
  config.load_format = model::LoadFormat::dummy;
  config.data_parallel = 2;
  config.expert_parallel = true;
  config.dbo = dbo;
  config.cpu_threads = 2;
  config.isa = best_isa();
  config.prefix_caching = kv::Caching::off;
  config.max_model_len = 2 * kPromptTokens;
  config.link = link;
  config.recorder = &recorder;
  {
    auto engine = engine::Engine::start(config, *tokenizer, metrics);
    if (!engine) throw Error(engine.error().code, engine.error().message);
    std::vector<cli::Prompt> prompts(kPromptsPerStep * kSteps, {{}, {.temperature = 0, .max_tokens = 1, .ignore_eos = true}});
    int32_t id = 0;
    for (cli::Prompt& prompt : prompts) {
      for (int i = 0; i < kPromptTokens; ++i) prompt.ids.push_back(id = (id * 37 + 11) % 700);
    }
    if (auto done = cli::complete(**engine, std::move(prompts)); !done) throw Error(done.error().code, done.error().message);
  }
  return full_steps(recorder.spans());
}

class Wire final : public dbo::Transfer {
 public:
  Wire(dbo::Ubatch& ub, const char* stage, double ns) : ub_(ub), stage_(stage), ns_(ns) {}
  void prepare(device::Stream&) override {}
  void receive(device::Stream& compute) override { compute.wait(arrived_); }

 private:
  void push(device::Stream& comm) override {
    ub_.comm_lane().launch(stage_, {.wire_bytes = ns_}, {});
    arrived_ = comm.record();
  }
  dbo::Ubatch& ub_;
  const char* stage_;
  double ns_;
  device::Event arrived_;
};

dbo::Task pass(dbo::Ubatch& ub, const Stages& s) {
  const auto spend = [&ub](const char* stage, double ns) { ub.lane().launch(stage, {.flops = ns}, {}); };
  spend("head", s.head);
  for (int l = 0; l < kLayers; ++l) {
    ub.layer = static_cast<int16_t>(l);
    spend("attention", s.attention / kLayers);
    Wire dispatch(ub, "dispatch", s.dispatch / kLayers);
    dbo::Exchange out(ub, dispatch);
    co_await out;
    spend("experts", s.experts / kLayers);
    Wire combine(ub, "combine", s.combine / kLayers);
    dbo::Exchange back(ub, combine);
    co_await back;
    spend("rest", s.rest / kLayers);
  }
  spend("tail", s.tail);
}

/// The step with overlap, ms: the stages of the step without it, halved, in the order of dbo::run on a virtual clock.
double predict(Stages s) {
  for (double* part : {&s.head, &s.attention, &s.experts, &s.rest, &s.tail, &s.dispatch, &s.combine}) *part /= 2;
  device::sim::VirtualDevice device({});
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  device::Arena arena(0);
  std::vector<dbo::Ubatch> ubs;
  std::vector<dbo::Task> tasks;
  std::vector<dbo::Pass> passes;
  ubs.reserve(2);
  for (int i = 0; i < 2; ++i) {
    ubs.push_back({.index = i, .compute = *compute, .comm = *comm, .arena = arena, .overlap = dbo::Overlap::on});
    tasks.push_back(pass(ubs.back(), s));
  }
  for (size_t i = 0; i < 2; ++i) passes.push_back({&ubs[i], &tasks[i]});
  dbo::run(passes);
  return static_cast<double>(device.timeline().end().count()) / 1e6;
}

void measure(const fs::path& model, double share, double compute_ms, double bytes) {
  const double comm_s = compute_ms / 1e3 * share / (1 - share);
  const comm::Link link{bytes / comm_s, std::chrono::microseconds(20)};
  std::vector<Step> off, on;
  for (int i = 0; i < kRounds; ++i) {  // in turns, so that a slow minute meets both
    for (const Step& step : run(model, link, engine::Switch::off)) off.push_back(step);
    for (const Step& step : run(model, link, engine::Switch::on)) on.push_back(step);
  }
  const auto measured = [](const Step& s) { return s.measured; };
  const double t_off = median_of(off, measured), t_on = median_of(on, measured);
  const double predicted = median_of(off, [](const Step& s) { return predict(s.stages); });
  const double r = median_of(off, [](const Step& s) { return s.comm / (s.comm + s.compute); });
  fmt::print("{:5.2f} {:6.3f} {:8.4f} {:8.1f} {:8.1f} {:8.1f} {:8.2f} {:10.3f} {:10.1f} {:+7.1f} % {:6}\n", share, r,
             link.bytes_per_second / 1e9, t_off, t_on, median_of(on, [](const Step& s) { return std::max(s.compute, s.comm); }),
             t_off / t_on, median_of(on, [](const Step& s) { return s.efficiency; }), predicted,
             100 * (t_on / predicted - 1), on.size());
  std::fflush(stdout);
}

}  // namespace
}  // namespace hocket

int main() {
  using namespace hocket;
  try {
    const Folder folder;
    // what a step computes and sends; the speed of this link hardly shows
    const auto probe = run(folder.path(), {10e9, {}}, engine::Switch::off);
    const double compute = median_of(probe, [](const Step& s) { return s.compute; });
    const double bytes = median_of(probe, [](const Step& s) { return s.wire_bytes; });
    fmt::print("2 ranks, {} layers, {} tokens a step and rank, {:.1f} MB leave a rank; times of a step in ms, medians\n",
               kLayers, kPromptTokens * kPromptsPerStep / 2, bytes / 1e6);
    fmt::print("{:>5} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>10} {:>10} {:>9} {:>6}\n", "asked", "r", "GB/s", "T off",
               "T on", "bound", "speed-up", "efficiency", "predicted", "error", "steps");
    for (const double share : {0.2, 0.35, 0.5}) measure(folder.path(), share, compute, bytes);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
