#include "sim/tune.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::sim {
namespace {

constexpr int64_t kLargestDecode = 1024;
constexpr int64_t kNever = 1'000'000'000;

const char* name(dbo::Phase phase) { return phase == dbo::Phase::decode ? "decode" : "prefill"; }

TunePhase sweep(const StepModel& model, const Workload& workload, dbo::Phase phase, int64_t least,
                int64_t most) {
  TunePhase result{.phase = phase};
  for (int64_t tokens = least; tokens <= most; tokens *= 2) {
    const auto time = [&](int ubatches) {
      return step_ms(model, plain_step(model.setup(), workload, phase, tokens, ubatches));
    };
    TuneRow row{.tokens = tokens, .whole_ms = time(1)};
    for (int ubatches = 2; ubatches <= 4; ++ubatches)
      row.split.push_back({ubatches, time(ubatches)});
    result.rows.push_back(std::move(row));
  }
  result.break_even = smallest_with_gain(model, workload, phase, 0, most);
  result.threshold = smallest_with_gain(model, workload, phase, kMinGain, most);
  return result;
}

int best(const std::vector<Variant>& all) {
  const auto least = std::min_element(
      all.begin(), all.end(), [](const Variant& a, const Variant& b) { return a.ms < b.ms; });
  return least == all.end() ? 0 : least->value;
}

/// The smallest within 1 % of the best: more ubatches cost memory and launches.
int fewest(const std::vector<Variant>& all) {
  double least = all.front().ms;
  for (const Variant& one : all) least = std::min(least, one.ms);
  for (const Variant& one : all) {
    if (one.ms <= 1.01 * least) return one.value;
  }
  return all.front().value;
}

std::string table(const TunePhase& phase) {
  std::string text = fmt::format("{}: tokens of a rank, ms of a step\n{:>8} {:>10}",
                                 name(phase.phase), "tokens", "whole");
  for (int ubatches = 2; ubatches <= 4; ++ubatches)
    text += fmt::format(" {:>16}", fmt::format("{} ubatches", ubatches));
  text += "\n";
  for (const TuneRow& row : phase.rows) {
    text += fmt::format("{:>8} {:>10.3f}", row.tokens, row.whole_ms);
    for (const Variant& one : row.split)
      text += fmt::format(" {:>8.3f} {:>+5.1f} %", one.ms, 100 * (row.whole_ms / one.ms - 1));
    text += "\n";
  }
  if (!phase.break_even) return text + "splitting never pays in this range\n";
  text += fmt::format("break-even at {} tokens", *phase.break_even);
  return text + (phase.threshold
                     ? fmt::format(", gain of {:.0f} % from {}\n", 100 * kMinGain, *phase.threshold)
                     : fmt::format(", never {:.0f} %\n", 100 * kMinGain));
}

}  // namespace

Tuning tune(const StepModel& model, const Workload& workload) {
  using dbo::Phase;
  const int64_t most = largest_step(workload, model.setup().hardware);
  Tuning tuning;
  tuning.decode = sweep(model, workload, Phase::decode, 8, std::min(most, kLargestDecode));
  tuning.prefill = sweep(model, workload, Phase::prefill, std::min<int64_t>(128, most), most);
  if (!tuning.prefill.rows.empty()) tuning.best_ubatches = fewest(tuning.prefill.rows.back().split);
  if (plain_step(model.setup(), workload, Phase::prefill, most, 2).mode ==
      dbo::Mode::high_throughput) {
    tuning.comm_sms = sweep_comm_sms(model, workload, Phase::prefill, most);
    tuning.best_comm_sms = best(tuning.comm_sms);
  }
  return tuning;
}

std::string tuning_text(const StepModel& model, const Tuning& tuning) {
  std::string text = table(tuning.decode) + "\n" + table(tuning.prefill);
  if (tuning.comm_sms.empty()) return text;
  text += "\ncomm SMs of the largest prefill, ms of a step in two ubatches\n";
  for (const Variant& one : tuning.comm_sms)
    text += fmt::format("{:>8} {:>10.3f}{}\n", one.value, one.ms,
                        one.value == tuning.best_comm_sms ? "  best" : "");
  return text + fmt::format("of {} SMs\n", model.setup().hardware.sms);
}

std::string tuning_yaml(const StepModel& model, const Tuning& tuning) {
  const StepSetup& setup = model.setup();
  std::string text = fmt::format("# hocket tune: {} on {} x {}, routing {}\n", setup.model.name,
                                 setup.ranks, setup.hardware.name, sim::name(setup.routing));
  text += setup.hardware.calibrated.empty()
              ? "# uncalibrated: data sheets and assumed efficiencies\n"
              : fmt::format("# calibrated {}\n", setup.hardware.calibrated);
  if (tuning.best_comm_sms > 0)
    text += fmt::format("# fastest with {} SMs for exchanges\n", tuning.best_comm_sms);
  for (const TunePhase* phase : {&tuning.decode, &tuning.prefill}) {
    if (!phase->threshold)
      text += fmt::format("# {} steps: splitting never gains {:.0f} %\n", name(phase->phase),
                          100 * kMinGain);
    text += fmt::format("dbo-{}-token-threshold: {}\n", name(phase->phase),
                        phase->threshold.value_or(kNever));
  }
  return text + fmt::format("ubatch-size: {}\n", tuning.best_ubatches);
}

}  // namespace hocket::sim
