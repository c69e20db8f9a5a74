#include "sim/hardware.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>

namespace hocket::sim {
namespace {

// Vendor data sheets; NVLink as DeepEP reaches it. Hopper: its maintainers' 380 of 450 GB/s, and
// 160 of 200 on the H800 (arXiv 2505.09343). Blackwell: DeepEP #420, GB200, 24 SMs, 351 and 426
// GB/s counting a rank's own rows, a quarter of them at EP4. NIC: 45 of 50 GB/s, an assumption.
std::vector<Hardware> presets() {
  std::vector<Hardware> all(6);
  Hardware& h100 = all[0];
  h100 = {.name = "h100-sxm", .sms = 132, .fp8_tflops = 1979, .bf16_tflops = 989};
  h100.memory_gb = 80;
  h100.memory_tb_s = 3.35;
  h100.link_gb_s = h100.link_combine_gb_s = 380;
  h100.nic_gb_s = 45;
  all[1] = h100;
  all[1].name = "h800-sxm";
  all[1].link_gb_s = all[1].link_combine_gb_s = 160;
  all[2] = h100;
  all[2].name = "h200-sxm";
  all[2].memory_gb = 141;
  all[2].memory_tb_s = 4.8;
  Hardware& b200 = all[3];
  b200 = h100;
  b200.name = "b200";
  b200.sms = 148;
  b200.fp8_tflops = 4500;
  b200.bf16_tflops = 2250;
  b200.fp4_tflops = 9000;
  b200.memory_gb = 180;
  b200.memory_tb_s = 8;
  b200.link_gb_s = 263;
  b200.link_combine_gb_s = 320;
  b200.gemm_efficiency = 0.55;
  b200.batched_tokens = 16384;
  // fitted once, to the throughput before the fix only: src/sim/workload_test.cc, docs/simulator.md
  b200.slowdown = 4.492;
  b200.calibrated = "on vLLM #38451 before its fix, 98,525 tok/s";
  all[4] = b200;
  all[4].name = "gb200-nvl72";
  all[4].sms = 152;
  all[4].fp8_tflops = 5000;
  all[4].bf16_tflops = 2500;
  all[4].fp4_tflops = 10000;
  all[4].memory_gb = 186;
  all[4].node_gpus = 72;
  all[4].slowdown = 1;
  all[4].calibrated.clear();
  Hardware& cpu = all[5];
  cpu = {.name = "cpu-net", .bf16_tflops = 0.04, .memory_gb = 8, .memory_tb_s = 0.008};
  cpu.link_gb_s = cpu.link_combine_gb_s = cpu.nic_gb_s = 0.05;
  cpu.latency_us = cpu.nic_latency_us = 200;
  cpu.gemm_efficiency = cpu.attention_efficiency = cpu.memory_efficiency = 1;
  cpu.comm_sms = 0;
  cpu.batched_tokens = 2048;
  return all;
}

struct Field {
  const char* key;
  double Hardware::*value;
};
constexpr Field kFields[] = {{"sms", &Hardware::sms},
                             {"fp8_tflops", &Hardware::fp8_tflops},
                             {"bf16_tflops", &Hardware::bf16_tflops},
                             {"fp4_tflops", &Hardware::fp4_tflops},
                             {"memory_gb", &Hardware::memory_gb},
                             {"memory_tb_s", &Hardware::memory_tb_s},
                             {"link_gb_s", &Hardware::link_gb_s},
                             {"link_combine_gb_s", &Hardware::link_combine_gb_s},
                             {"nic_gb_s", &Hardware::nic_gb_s},
                             {"node_gpus", &Hardware::node_gpus},
                             {"latency_us", &Hardware::latency_us},
                             {"nic_latency_us", &Hardware::nic_latency_us},
                             {"gemm_efficiency", &Hardware::gemm_efficiency},
                             {"attention_efficiency", &Hardware::attention_efficiency},
                             {"memory_efficiency", &Hardware::memory_efficiency},
                             {"launch_us", &Hardware::launch_us},
                             {"floor_us", &Hardware::floor_us},
                             {"sm_memory_gb_s", &Hardware::sm_memory_gb_s},
                             {"sm_store_gb_s", &Hardware::sm_store_gb_s},
                             {"comm_sms", &Hardware::comm_sms},
                             {"batched_tokens", &Hardware::batched_tokens},
                             {"slowdown", &Hardware::slowdown}};

Expected<Hardware> preset(const std::string& name) {
  for (Hardware& one : presets()) {
    if (one.name == name || one.name.substr(0, one.name.find('-')) == name) return std::move(one);
  }
  return fail(Code::config, fmt::format("hardware {}: no preset and no file. Presets: {}.", name,
                                        fmt::join(hardware_names(), ", ")));
}

tl::unexpected<Failure> refuse(const std::string& file, const std::string& what) {
  return fail(Code::config, fmt::format("{}: {}", file, what));
}

Expected<void> set(Hardware& hardware, const std::string& key, const YAML::Node& value,
                   const std::string& file) {
  if (key == "base") return {};
  if (key == "name" || key == "calibrated") {
    (key == "name" ? hardware.name : hardware.calibrated) = value.as<std::string>("");
    return {};
  }
  for (const Field& field : kFields) {
    if (key != field.key) continue;
    const double number = value.as<double>(-1);
    if (!(number >= 0))
      return refuse(file, fmt::format("{} {}: expected a number of at least 0.", key,
                                      value.IsScalar() ? value.Scalar() : "?"));
    hardware.*field.value = number;
    return {};
  }
  std::vector<std::string> known;
  for (const Field& field : kFields) known.emplace_back(field.key);
  return refuse(file, fmt::format("unknown key {}. Known: base, name, calibrated, {}.", key,
                                  fmt::join(known, ", ")));
}

Expected<Hardware> read(const std::string& file) {
  YAML::Node root;
  try {
    root = YAML::LoadFile(file);
  } catch (const YAML::Exception& error) {
    return refuse(file, error.what());
  }
  if (!root.IsMap()) return refuse(file, "expected keys and values. See docs/simulator.md.");
  Hardware hardware{.name = std::filesystem::path(file).stem().string()};
  if (root["base"]) {
    auto base = preset(root["base"].as<std::string>(""));
    if (!base) return refuse(file, base.error().message);
    base->name = hardware.name;
    hardware = std::move(*base);
  }
  for (const auto& entry : root) {
    if (auto done = set(hardware, entry.first.as<std::string>(""), entry.second, file); !done)
      return tl::unexpected(done.error());
  }
  if (hardware.link_combine_gb_s <= 0) hardware.link_combine_gb_s = hardware.link_gb_s;
  for (const auto& [value, key] : {std::pair{hardware.bf16_tflops, "bf16_tflops"},
                                   {hardware.memory_tb_s, "memory_tb_s"},
                                   {hardware.link_gb_s, "link_gb_s"},
                                   {hardware.gemm_efficiency, "gemm_efficiency"},
                                   {hardware.attention_efficiency, "attention_efficiency"},
                                   {hardware.memory_efficiency, "memory_efficiency"},
                                   {hardware.node_gpus, "node_gpus"},
                                   {hardware.batched_tokens, "batched_tokens"},
                                   {hardware.slowdown, "slowdown"}}) {
    if (value <= 0)
      return refuse(file, fmt::format("{} must be above 0. Give it, or base: PRESET.", key));
  }
  return hardware;
}

}  // namespace

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const Hardware& one : presets()) names.push_back(one.name);
  return names;
}

Expected<Hardware> load_hardware(const std::string& name_or_file) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name_or_file, ignored)) return read(name_or_file);
  return preset(name_or_file);
}

Machine machine_of(const Hardware& hardware, int ranks, int comm_sms, Partition partition) {
  const double slow = hardware.slowdown;
  const bool nodes = ranks > static_cast<int>(hardware.node_gpus);
  Machine machine{
      .link = {.egress = hardware.link_gb_s / slow, .ingress = hardware.link_gb_s / slow}};
  if (nodes) {
    machine.link.node_ranks = static_cast<int>(hardware.node_gpus);
    machine.link.nic = hardware.nic_gb_s / slow;
  }
  machine.latency_ns = (nodes ? hardware.nic_latency_us : hardware.latency_us) * 1000 * slow;
  machine.sms = static_cast<int>(hardware.sms);
  machine.memory_sms = static_cast<int>(std::ceil(
      hardware.memory_tb_s * 1000 * hardware.memory_efficiency / hardware.sm_memory_gb_s));
  machine.store_per_sm = hardware.sm_store_gb_s / slow;
  machine.comm_sms = comm_sms;
  machine.partition = partition;
  return machine;
}

}  // namespace hocket::sim
