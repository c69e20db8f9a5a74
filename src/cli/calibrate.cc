#include <algorithm>
#include <cmath>
#include <ctime>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/offline.h"
#include "sim/fit_costs.h"

namespace hocket::cli {
namespace {

/// Prompts that run at the same time, one share for each rank.
struct Wave {
  int64_t sequences = 1;  ///< of a rank
  int64_t input = 16, output = 1;
};

/// Prefills of many sizes, one prompt a rank; then decodes of many widths with short and longer contexts.
std::vector<Wave> waves(int64_t longest, int64_t widest) {
  constexpr int kRepeats = 6;  // a wave counts only if all ranks begin it in the same step
  std::vector<Wave> all;
  for (int64_t tokens = 16; tokens <= longest; tokens *= 2) {
    for (int64_t input : {tokens, tokens + tokens / 2}) {
      if (input <= longest) all.insert(all.end(), kRepeats, {.sequences = 1, .input = input});
    }
  }
  for (int64_t width = 1; width <= widest; width *= 2) {
    for (int64_t input : {16, 256}) {
      if (input < longest) all.push_back({.sequences = width, .input = input, .output = 24});
    }
  }
  return all;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d", &utc)};
}

/// A step of `ranks` equal ranks.
std::vector<dbo::StepRecord> records(int ranks, dbo::Phase phase, double tokens, double pairs) {
  const dbo::StepRecord one{.tokens = static_cast<int64_t>(tokens),
                            .uniform_query = phase == dbo::Phase::decode ? 1 : 0,
                            .attention_pairs = static_cast<int64_t>(pairs)};
  return std::vector<dbo::StepRecord>(static_cast<size_t>(ranks), one);
}

void print_errors(const sim::CostFile& file, const std::vector<sim::StepCosts>& steps) {
  for (dbo::Phase phase : {dbo::Phase::prefill, dbo::Phase::decode}) {
    std::vector<double> errors;
    for (const sim::StepCosts& step : steps) {
      if (step.phase != phase) continue;
      const dbo::LayerCost& c = step.layer;
      const double measured =
          step.outside + step.layers * (c.before + step.attention + c.dispatch + c.experts + c.combine + c.after);
      const auto ranks = records(file.origin.ranks, phase, step.tokens, step.pairs);
      errors.push_back(std::abs(predict(ranks, file.table, phase, 2).whole_us / measured - 1));
    }
    std::sort(errors.begin(), errors.end());
    fmt::print("{:<8}{} whole steps, median error of the fit {:.1f} %\n", phase == dbo::Phase::prefill ? "prefill" : "decode",
               errors.size(), 100 * errors[errors.size() / 2]);
  }
}

void print_gains(const sim::CostFile& file, int64_t longest, int64_t widest) {
  fmt::print("\npredicted gain of two ubatches\n{:>14}  {:>8}  {:>8}\n", "tokens a rank", "prefill", "decode");
  const auto gain = [&](dbo::Phase phase, int64_t tokens, int64_t most) {
    if (tokens > most) return std::string("-");
    const auto count = static_cast<double>(tokens);
    const double pairs = phase == dbo::Phase::prefill ? count * (count + 1) / 2 : count * 128;
    return fmt::format("{:+.1f} %", 100 * predict(records(file.origin.ranks, phase, count, pairs), file.table, phase, 2).gain());
  };
  for (int64_t tokens = 2; tokens <= longest; tokens *= 4) {
    fmt::print("{:>14}  {:>8}  {:>8}\n", tokens, gain(dbo::Phase::prefill, tokens, longest),
               gain(dbo::Phase::decode, tokens, widest));
  }
}

}  // namespace

int bench_calibrate(const Options& options) {
  auto config = resolve(options.engine);
  if (!config) return report(config.error());
  if (config->data_parallel < 2 || !config->expert_parallel) {
    return report({Code::config, "configuration error: bench calibrate measures the exchange between ranks. Use "
                                 "--data-parallel-size 2 or more with --enable-expert-parallel."});
  }
  config->policy = dbo::PolicyKind::never;
  config->prefix_caching = kv::Caching::off;
  device::Recorder recorder;
  config->recorder = &recorder;
  sim::CostFile file{.origin = cost_origin(*config), .measured = today(), .table = {}};
  const int64_t widest = config->max_seqs, budget = config->max_batched_tokens;
  auto session = open_session(std::move(*config), Report::table, {});
  if (!session) return report(session.error());
  const int64_t longest = std::min(budget, (*session)->engine->summary().max_model_len - 1);
  uint64_t seed = options.engine.config.seed;
  for (const Wave& wave : waves(longest, widest)) {
    auto prompts = random_prompts(wave.sequences * file.origin.ranks, wave.input, wave.output, *(*session)->tokenizer, seed++);
    if (auto done = complete(*(*session)->engine, std::move(prompts)); !done) return report(done.error());
  }
  (*session)->engine.reset();  // the lanes' writers end
  const std::vector<sim::StepCosts> steps = sim::step_costs(recorder.spans());
  auto table = sim::fit_costs(steps);
  if (!table) return report(table.error());
  file.table = std::move(*table);
  if (auto written = write_file(options.calibrate.output, sim::cost_json(file)); !written) return report(written.error());
  fmt::print("{} on {}, {} ranks\n", file.origin.model, file.origin.device, file.origin.ranks);
  print_errors(file, steps);
  print_gains(file, longest, widest);
  fmt::print("\nwritten to {}: use it with --cost-table\n", options.calibrate.output.string());
  return 0;
}

}  // namespace hocket::cli
