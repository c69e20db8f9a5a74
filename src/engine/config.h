// Everything that decides how an engine runs, checked as a whole before a weight is read.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/isa.h"
#include "comm/all2all.h"
#include "comm/threads.h"
#include "dbo/agree.h"
#include "dbo/cut.h"
#include "model/model.h"
#include "sched/scheduler.h"

namespace hocket::engine {

enum class Switch : uint8_t { automatic, off, on };  ///< a flag that may be left to the engine
enum class BackendChoice : uint8_t { automatic, high_throughput, low_latency, allgather };

struct Config {
  std::filesystem::path model;
  std::string served_name;
  model::LoadFormat load_format = model::LoadFormat::automatic;
  uint64_t seed = 0;

  int data_parallel = 1;
  bool expert_parallel = false;
  BackendChoice backend = BackendChoice::automatic;

  Switch dbo = Switch::automatic;
  std::optional<int> ubatches;  ///< --ubatch-size as given; 2 when DBO is on
  dbo::PolicyKind policy = dbo::PolicyKind::automatic;
  int64_t decode_threshold = 32, prefill_threshold = 512;
  std::shared_ptr<const dbo::CostTable> costs{};  ///< what policy `automatic` decides by; none: as `threshold`
  double min_gain = 0.05, keep_gain = 0.01;       ///< predicted gain at which splitting begins, and below which it ends
  dbo::CutPolicy cut;

  std::optional<int64_t> max_model_len;
  int64_t max_seqs = 128, max_batched_tokens = 2048;
  int64_t block_size = 16;
  std::optional<int64_t> kv_blocks;  ///< a rank; else from kv_bytes
  int64_t kv_bytes = 96 << 20;       ///< a rank
  kv::Caching prefix_caching = kv::Caching::on;

  Isa isa = Isa::generic;
  std::optional<int> cpu_threads;  ///< compute threads in all; else the cores, shared by the ranks
  std::chrono::milliseconds exchange_timeout{10'000};
  comm::Link link{};                    ///< between ranks, emulated; default: memory as it is
  device::Recorder* recorder = nullptr;  ///< of the ranks' lanes and steps; outlives the engine; null: no trace
  std::function<void(int rank, int64_t done, int64_t total)> load_progress{};
  std::function<void()> before_step{};  ///< tests only: a fault to inject; runs on rank 0
};

/// All contradictions at once, one line each, in the words of docs/dbo.md; empty when the configuration can work.
/// `model` is what load_config() read.
std::vector<std::string> validate(const Config& config, const model::ModelConfig& model);

/// Compute threads of each rank: an equal share of those asked for, or of the cores; at least 1.
int threads_per_rank(const Config& config);

}  // namespace hocket::engine
