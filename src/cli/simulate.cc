// `hocket simulate`: a benchmark on virtual ranks, what overlapped in it, and what would help.
#include <cstdio>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/virtual_setup.h"
#include "sim/report.h"

namespace hocket::cli {
namespace {

/// All ranks of one step, as `hocket trace` reads them.
Expected<void> save(const std::filesystem::path& path, const sim::RecordedStep& step) {
  auto spans = sim::spans(step.graph, step.solution);
  for (int rank = 0; rank < step.graph.ranks; ++rank)
    spans.push_back({rank, "host", "step 0", 0, step.solution.length.count(), {}});
  return telemetry::save_trace(path, spans);
}

}  // namespace

int simulate(const Options& options) {
  auto setup = virtual_setup(options);
  if (!setup) return refuse(setup.error());
  const sim::Workload workload = virtual_workload(options);
  if (const auto problems = sim::problems(workload, *setup); !problems.empty()) return refuse(problems);
  const sim::StepModel model(std::move(*setup));
  auto result = sim::run_workload(model, workload);
  if (!result) return report(result.error());
  const sim::StepShape& steady = result->steady();
  const sim::RecordedStep step = model.run(steady);
  if (!options.engine.trace.empty()) {
    if (auto saved = save(options.engine.trace, step); !saved) return report(saved.error());
  }
  const sim::StepFigures figures = sim::figures(step);
  const sim::Advice advice = sim::advise(model, workload, steady);
  if (options.simulate.output == Output::json) {
    fmt::print("{}", sim::json_report(model, workload, *result, figures, advice));
    return 0;
  }
  fmt::print("{}{}\n", sim::setup_text(model, workload), sim::benchmark_table(workload, *result));
  fmt::print("{} steps, {} split; the kind that took most time:\n{}\n{}{}", result->steps, result->split_steps,
             sim::layer_picture(model, step), sim::figures_text(model, steady, figures),
             sim::advice_text(model, advice));
  return 0;
}

}  // namespace hocket::cli
