#include "sim/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/match.h"
#include "sim/model_stages.h"

namespace hocket::sim {
namespace {

// Sum over queries at positions [begin, end) of the keys they see, at most `window` each.
int64_t visible(int64_t begin, int64_t end, int64_t window) {
  const auto all = [](int64_t n) { return n * (n + 1) / 2; };  // queries 0 .. n-1
  if (window <= 0) return all(end) - all(begin);
  const auto limited = [&](int64_t n) {
    return n <= window ? all(n) : all(window) + (n - window) * window;
  };
  return limited(end) - limited(begin);
}

constexpr double kVllmLaunches = 45;  // of a layer and ubatch: an assumption, docs/simulator.md

/// vLLM's host: Python launches of 5 us, 35 us from thread to thread, counts awaited in dispatch.
HostCosts vllm_host(double modelled_launches, double launch_ns) {
  const double rest = std::max(0.0, kVllmLaunches - modelled_launches) * launch_ns;
  return {.hand_over = Nanos(35'000),
          .layer = Nanos(std::llround(rest)),
          .counts = HostCosts::Counts::on_host};
}

}  // namespace

std::vector<Share> shares_of(const dbo::StepPlan& plan, int ubatches, const dbo::CutPolicy& policy,
                             const ModelSpec& model) {
  std::vector<Share> shares;
  for (const dbo::TokenRange& range : dbo::cut(plan, std::max(1, ubatches), policy).ranges) {
    Share share;
    for (const dbo::Part& part : dbo::parts_of(plan, range)) {
      const dbo::PlanRow& row = plan.rows[static_cast<size_t>(part.row)];
      const int64_t begin = row.computed + part.first, end = begin + part.count;
      share.tokens += part.count;
      share.pairs += visible(begin, end, 0);
      share.window_pairs += visible(begin, end, model.window);
      share.context += end;
      share.samples += row.samples && part.first + part.count == row.query ? 1 : 0;
    }
    shares.push_back(share);
  }
  return shares;
}

std::vector<std::string> problems(const StepSetup& setup) {
  std::vector<std::string> all;
  const auto& [model, hardware, ranks, comm_sms, partition, schedule, capture, routing] = setup;
  if (ranks < 2) all.push_back("--num-gpus 1: experts are not exchanged. Use 2 or more.");
  if (ranks >= 2 && model.experts % ranks != 0)
    all.push_back(fmt::format("--num-gpus {} does not divide the {} experts of {}.", ranks,
                              model.experts, model.name));
  const int sms = static_cast<int>(hardware.sms);
  if (sms > 0 && (comm_sms < 1 || comm_sms >= sms))
    all.push_back(fmt::format("--comm-sms {}: {} has {} SMs. Use 1..{}.", comm_sms, hardware.name,
                              sms, sms - 1));
  return all;
}

StepModel::StepModel(StepSetup setup)
    : setup_(std::move(setup)),
      routing_(route(setup_.model, setup_.ranks, static_cast<int>(setup_.hardware.node_gpus),
                     setup_.routing)) {}

Price StepModel::price(const device::Label& label, const device::Cost& cost) const {
  const Hardware& hw = setup_.hardware;
  if (cost.flops <= 0 && cost.memory_bytes <= 0) return {};
  const std::string_view stage = label.stage;
  const bool experts = stage == "gate_up" || stage == "down";
  const bool gemm =
      experts || stage == "qkv" || stage == "o_proj" || stage == "shared" || stage == "dense";
  const Format format = experts ? setup_.model.expert_format
                        : gemm  ? setup_.model.dense_format
                                : Format::bf16;
  // MXFP4 weights meet FP8 activations where the device has FP4, BF16 ones elsewhere
  const bool narrow = format == Format::fp8 || (format == Format::mxfp4 && hw.fp4_tflops > 0);
  const double peak = narrow && hw.fp8_tflops > 0 ? hw.fp8_tflops : hw.bf16_tflops;
  const double efficiency = stage == "attention" ? hw.attention_efficiency : hw.gemm_efficiency;
  Price price{.fixed = hw.floor_us * 1000,
              .flops = cost.flops / (peak * efficiency * 1000),
              .memory = cost.memory_bytes / (hw.memory_tb_s * hw.memory_efficiency * 1000)};
  for (double* part : {&price.fixed, &price.flops, &price.memory}) *part *= hw.slowdown;
  // vLLM limits its FP8 GEMMs only, and always
  if (setup_.schedule == Schedule::vllm && gemm)
    price.max_sms = static_cast<int>(hw.sms) - setup_.comm_sms;
  return price;
}

RecordedStep StepModel::run(const StepShape& shape) const {
  const Hardware& hw = setup_.hardware;
  const bool vllm = setup_.schedule == Schedule::vllm;
  RecordedStep step;
  step.graph.ranks = setup_.ranks;
  Order order{.layers = static_cast<int>(setup_.model.layers),
              .schedule = setup_.schedule,
              .capture = setup_.capture,
              .overlap = shape.overlap};
  const double launch_ns = vllm ? 5000 : hw.launch_us * 1000;
  if (vllm) order.host = vllm_host(ModelStages::kLaunches, launch_ns);
  if (vllm && shape.overlap == dbo::Overlap::off) order.host.hand_over = Nanos(0);
  for (int rank = 0; rank < setup_.ranks; ++rank) {
    const Pricer pricer = [this](const auto& label, const auto& cost) {
      return price(label, cost);
    };
    RecordDevice device(step.graph, rank, pricer, Nanos(std::llround(launch_ns)));
    ModelStages stages(setup_, routing_, shape, rank);
    std::vector<dbo::TokenRange> ranges;
    int64_t begin = 0;
    for (const Share& share : shape.ranks[static_cast<size_t>(rank)]) {
      ranges.push_back({begin, begin + share.tokens});
      begin += share.tokens;
    }
    record_step(device, stages, ranges, order);
  }
  if (auto same = check_order(step.graph); !same)
    throw Error(same.error().code, same.error().message);
  const Partition partition = vllm                                 ? Partition::none
                              : shape.overlap == dbo::Overlap::off ? Partition::dynamic
                                                                   : setup_.partition;
  auto solution = solve(step.graph, machine_of(hw, setup_.ranks, setup_.comm_sms, partition));
  if (!solution) throw Error(solution.error().code, solution.error().message);
  step.solution = std::move(*solution);
  return step;
}

}  // namespace hocket::sim
