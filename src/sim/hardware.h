// What a rank's machine can do: data sheets, measured efficiencies, and assumptions marked as such.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/solve.h"

namespace hocket::sim {

/// One GPU (or process) and its links. Decimal units, dense peaks, one direction.
struct Hardware {
  std::string name;
  double sms = 0;                                          ///< 0: no partition
  double fp8_tflops = 0, bf16_tflops = 0, fp4_tflops = 0;  ///< 0: not supported, the next larger is
  double memory_gb = 0, memory_tb_s = 0;
  /// Bytes that cross the link between two GPUs of a node, as exchanges reach it; those of a
  /// combine.
  double link_gb_s = 0, link_combine_gb_s = 0;
  double nic_gb_s = 0;   ///< between nodes, a GPU
  double node_gpus = 8;  ///< joined by the link
  double latency_us = 2, nic_latency_us = 5;
  double gemm_efficiency = 0.6, attention_efficiency = 0.5, memory_efficiency = 0.8;
  double launch_us = 2.5;        ///< host time of a launch
  double floor_us = 3;           ///< device time of the smallest launch
  double sm_memory_gb_s = 100;   ///< traffic of one SM; measured on an H200, 41 of 132 saturate
  double sm_store_gb_s = 50;     ///< of an exchange; the same source
  double comm_sms = 20;          ///< of an exchange; vLLM's VLLM_DBO_COMM_SMS
  double batched_tokens = 8192;  ///< a step and rank; vLLM's server default
  /// All device and link times are multiplied by this; 1: nothing was calibrated.
  double slowdown = 1;
  std::string calibrated{};  ///< what `slowdown` was fitted to; empty: nothing
};

/// h100-sxm, h800-sxm, h200-sxm, b200, gb200-nvl72, cpu-net; also without what follows the dash.
std::vector<std::string> hardware_names();
/// A preset, or a YAML file of the fields above by name, over those of `base: PRESET` if given.
/// Fails (config) naming the preset, key or value and what is possible.
Expected<Hardware> load_hardware(const std::string& name_or_file);

/// What the solver needs of it. `comm_sms`: what an exchange holds.
Machine machine_of(const Hardware& hardware, int ranks, int comm_sms, Partition partition);

}  // namespace hocket::sim
