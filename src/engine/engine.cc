#include "engine/engine.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <pthread.h>

#include "base/log.h"
#include "comm/group.h"
#include "comm/threads.h"
#include "engine/admission.h"
#include "engine/rank.h"

namespace hocket::engine {
namespace {

/// Ranks that share experts, or a rank alone: what they meet through.
struct Island {
  Island(int ranks, const Config& config)
      : group(ranks),
        high_throughput(ranks, config.link, config.recorder),
        low_latency(ranks, config.link, config.recorder) {}
  comm::Group group;
  comm::Hub high_throughput, low_latency;
};

class RunningEngine final : public Engine {
 public:
  RunningEngine(Config config, model::ModelConfig model, const text::Tokenizer& tokenizer, telemetry::Metrics& metrics);
  ~RunningEngine() override { stop(); }
  Expected<void> load();

  Expected<int64_t> submit(std::vector<int32_t> prompt, sched::SamplingParams sampling,
                           std::shared_ptr<Sink> sink) override;
  void abort(int64_t request) override;
  Health health() const override { return health_.load(); }
  std::string failure() const override;
  const Summary& summary() const override { return summary_; }
  int64_t running() const override;
  bool drain(std::chrono::milliseconds limit) override;

 private:
  struct Seat {  // what one rank owns; destroyed after its thread has ended
    std::unique_ptr<comm::AllToAll> high_throughput, low_latency;
    std::unique_ptr<Rank> rank;
  };
  void describe();
  Expected<void> load_weights();
  Expected<void> open_exchanges();
  comm::Config exchange_config(int rank, comm::Backend backend, int64_t max_tokens) const;
  RankOptions rank_options(int index) const;
  Seat& seat(int64_t request) { return seats_[static_cast<size_t>(request % config_.data_parallel)]; }
  int least_loaded();
  void run_rank(int index);
  void stop();
  Island& island(int index) { return *islands_[config_.expert_parallel ? 0 : static_cast<size_t>(index)]; }
  int group_ranks() const { return config_.expert_parallel ? config_.data_parallel : 1; }
  int group_rank(int index) const { return config_.expert_parallel ? index : 0; }
  int ubatches() const { return dbo_on_ ? config_.ubatches.value_or(2) : 1; }
  const model::Model& model(int index) const { return *models_[config_.expert_parallel ? static_cast<size_t>(index) : 0]; }

  Config config_;
  model::ModelConfig model_config_;
  const text::Tokenizer& tokenizer_;
  telemetry::Metrics& metrics_;
  Summary summary_;
  bool dbo_on_ = false;
  int64_t max_model_len_ = 0, kv_blocks_ = 0;
  int threads_per_rank_ = 1;
  std::vector<std::unique_ptr<Island>> islands_;
  std::vector<std::unique_ptr<model::Model>> models_;  // one a rank with expert parallelism, else one for all
  std::vector<Seat> seats_;
  std::vector<std::thread> threads_;
  std::atomic<Health> health_{Health::ready};
  std::atomic<int64_t> next_ticket_{0};
  mutable std::mutex failure_mutex_;
  std::string failure_;
};

RunningEngine::RunningEngine(Config config, model::ModelConfig model, const text::Tokenizer& tokenizer,
                             telemetry::Metrics& metrics)
    : config_(std::move(config)), model_config_(std::move(model)), tokenizer_(tokenizer), metrics_(metrics) {
  dbo_on_ = config_.dbo != Switch::off && config_.expert_parallel && config_.data_parallel > 1 &&
            model_config_.experts > 0 && config_.ubatches.value_or(2) > 1;
  max_model_len_ = config_.max_model_len.value_or(model_config_.max_positions);
  kv_blocks_ = config_.kv_blocks.value_or(config_.kv_bytes / (model_config_.kv_bytes_per_token() * config_.block_size));
  threads_per_rank_ = threads_per_rank(config_);
}

std::string why_dbo_is_off(const Config& config, const model::ModelConfig& model) {
  if (config.dbo == Switch::off) return "off: --no-enable-dbo";
  if (!config.expert_parallel) return "off: needs --enable-expert-parallel";
  if (config.data_parallel < 2) return "off: one rank";
  if (model.experts == 0) return "off: no expert layers";
  return "off: --ubatch-size 1";
}

std::string backend_name(BackendChoice choice) {
  switch (choice) {
    case BackendChoice::automatic: return "auto (high_throughput, low_latency for decode)";
    case BackendChoice::high_throughput: return "high_throughput";
    case BackendChoice::low_latency: return "low_latency";
    case BackendChoice::allgather: return "allgather";
  }
  return "";
}

void RunningEngine::describe() {
  summary_.model = model_config_;
  summary_.ranks = config_.data_parallel;
  summary_.expert_ranks = group_ranks();
  summary_.experts_per_rank = model_config_.experts / group_ranks();
  summary_.backend = backend_name(config_.backend);
  const bool predicts = config_.policy == dbo::PolicyKind::automatic && config_.costs != nullptr;
  summary_.dbo = dbo_on_ ? fmt::format("on, {} ubatches, policy {}{}, floors decode {} / prefill {}", ubatches(),
                                       name(config_.policy), predicts ? " with a cost table" : "", config_.decode_threshold,
                                       config_.prefill_threshold)
                         : why_dbo_is_off(config_, model_config_);
  summary_.isa = std::string(name(config_.isa));
  summary_.prefix_cache = config_.prefix_caching == kv::Caching::on ? "on" : "off";
  summary_.kv_blocks = kv_blocks_;
  summary_.block_size = config_.block_size;
  summary_.max_model_len = max_model_len_;
  summary_.threads_per_rank = threads_per_rank_;
  summary_.kv_bytes = kv_blocks_ * config_.block_size * model_config_.kv_bytes_per_token();
  for (const auto& model : models_) summary_.weight_bytes += model->weight_bytes();
  summary_.max_seqs = config_.max_seqs;
  summary_.max_batched_tokens = config_.max_batched_tokens;
}

/// Runs body(0) .. body(count - 1) on a thread each and returns the first failure.
Expected<void> in_parallel(int count, const std::function<Expected<void>(int)>& body) {
  std::vector<Expected<void>> results(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      Expected<void>& result = results[static_cast<size_t>(i)];
      try {
        result = body(i);
      } catch (const Error& error) {
        result = fail(error.code(), error.what());
      } catch (const std::exception& error) {
        result = fail(Code::internal, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Expected<void>& result : results) {
    if (!result) return result;
  }
  return {};
}

Expected<void> RunningEngine::load_weights() {
  const int copies = config_.expert_parallel ? config_.data_parallel : 1;
  models_.resize(static_cast<size_t>(copies));
  return in_parallel(copies, [this, copies](int rank) -> Expected<void> {
    model::LoadOptions options{.rank = rank, .ranks = copies, .format = config_.load_format, .seed = config_.seed};
    if (config_.load_progress) {
      options.progress = [this, rank](int64_t done, int64_t total) { config_.load_progress(rank, done, total); };
    }
    auto loaded = model::load_model(config_.model, model_config_, options);
    if (!loaded) return tl::unexpected(loaded.error());
    models_[static_cast<size_t>(rank)] = std::move(*loaded);
    return {};
  });
}

comm::Config RunningEngine::exchange_config(int rank, comm::Backend backend, int64_t max_tokens) const {
  comm::Config config = model(rank).exchange_config();
  config.rank = group_rank(rank);
  config.ranks = group_ranks();
  config.max_tokens = max_tokens;
  config.max_ubatches = ubatches();
  config.backend = backend;
  config.timeout = config_.exchange_timeout;
  return config;
}

Expected<void> RunningEngine::open_exchanges() {
  for (int i = 0; i < (config_.expert_parallel ? 1 : config_.data_parallel); ++i) {
    islands_.push_back(std::make_unique<Island>(group_ranks(), config_));
  }
  return in_parallel(config_.data_parallel, [this](int rank) -> Expected<void> {
    Seat& seat = seats_[static_cast<size_t>(rank)];
    comm::Backend main = comm::Backend::high_throughput;
    if (config_.backend == BackendChoice::low_latency) main = comm::Backend::low_latency;
    if (config_.backend == BackendChoice::allgather) main = comm::Backend::allgather;
    auto first = comm::open(exchange_config(rank, main, config_.max_batched_tokens), island(rank).high_throughput);
    if (!first) return tl::unexpected(first.error());
    seat.high_throughput = std::move(*first);
    if (config_.backend != BackendChoice::automatic) return {};
    auto second =
        comm::open(exchange_config(rank, comm::Backend::low_latency, config_.max_seqs), island(rank).low_latency);
    if (!second) return tl::unexpected(second.error());
    seat.low_latency = std::move(*second);
    return {};
  });
}

RankOptions RunningEngine::rank_options(int index) const {
  RankOptions options;
  options.index = index;
  options.group_rank = group_rank(index);
  options.stepper = {.block_size = config_.block_size,
                     .kv_blocks = kv_blocks_,
                     .max_batched_tokens = config_.max_batched_tokens,
                     .max_seqs = config_.max_seqs,
                     .max_model_len = max_model_len_,
                     .ubatches = ubatches(),
                     .threads = threads_per_rank_,
                     .isa = config_.isa,
                     .cut = config_.cut,
                     .timeout = config_.exchange_timeout,
                     .recorder = config_.recorder,
                     .rank = index};
  options.limits = {config_.max_batched_tokens, config_.max_seqs, max_model_len_};
  options.caching = config_.prefix_caching;
  options.policy = {.enabled = dbo_on_,
                    .kind = config_.policy,
                    .ubatches = ubatches(),
                    .decode_threshold = config_.decode_threshold,
                    .prefill_threshold = config_.prefill_threshold,
                    .low_latency_capacity = config_.backend == BackendChoice::automatic ? config_.max_seqs : 0,
                    .costs = config_.costs,
                    .min_gain = config_.min_gain,
                    .keep_gain = config_.keep_gain};
  options.end_rules.eos_ids = model_config_.eos_ids;
  options.end_rules.max_model_len = max_model_len_;
  for (int32_t id = 0; id < static_cast<int32_t>(model_config_.vocab); ++id) {
    if (!tokenizer_.known(id)) options.end_rules.tokenless.push_back(id);
  }
  if (index == 0) options.before_step = config_.before_step;
  return options;
}

Expected<void> RunningEngine::load() {
  if (auto loaded = load_weights(); !loaded) return loaded;
  seats_.resize(static_cast<size_t>(config_.data_parallel));
  if (auto opened = open_exchanges(); !opened) return opened;
  for (int index = 0; index < config_.data_parallel; ++index) {
    Seat& seat = seats_[static_cast<size_t>(index)];
    comm::AllToAll* fast = seat.low_latency ? seat.low_latency.get() : seat.high_throughput.get();
    seat.rank = std::make_unique<Rank>(rank_options(index), island(index).group, model(index),
                                       std::array<comm::AllToAll*, 2>{seat.high_throughput.get(), fast}, tokenizer_,
                                       metrics_);
  }
  describe();
  for (int index = 0; index < config_.data_parallel; ++index) threads_.emplace_back([this, index] { run_rank(index); });
  return {};
}

void RunningEngine::run_rank(int index) {
  pthread_setname_np(pthread_self(), fmt::format("rank {}", index).c_str());
  try {
    seats_[static_cast<size_t>(index)].rank->run();
  } catch (const std::exception& error) {
    {
      const std::lock_guard lock(failure_mutex_);
      if (failure_.empty()) failure_ = fmt::format("rank {}: {}", index, error.what());
    }
    health_ = Health::failed;
    log::error("engine", "rank {} stopped: {}", index, error.what());
    island(index).group.close();
    seats_[static_cast<size_t>(index)].rank->give_up(error.what());
  }
}

std::string RunningEngine::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

int RunningEngine::least_loaded() {
  const auto ranks = static_cast<size_t>(config_.data_parallel);
  const auto first = static_cast<size_t>(next_ticket_.load(std::memory_order_relaxed)) % ranks;
  size_t best = first;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < ranks; ++i) {  // equal loads take turns
    const size_t index = (first + i) % ranks;
    const RankLoad& load = seats_[index].rank->load();
    const int64_t weight = load.open.load(std::memory_order_relaxed) + 3 * load.waiting.load(std::memory_order_relaxed);
    if (weight < least) {
      least = weight;
      best = index;
    }
  }
  return static_cast<int>(best);
}

Expected<int64_t> RunningEngine::submit(std::vector<int32_t> prompt, sched::SamplingParams sampling,
                                        std::shared_ptr<Sink> sink) {
  if (health() == Health::failed) return fail(Code::aborted, "The engine has failed: " + failure());
  if (health() == Health::draining) return fail(Code::aborted, "The server is shutting down.");
  auto admitted = admit(prompt, std::move(sampling), {.max_model_len = max_model_len_, .vocab = model_config_.vocab});
  if (!admitted) return tl::unexpected(admitted.error());
  const int rank = least_loaded();
  // the id says which rank has the request, so that abort() needs no table
  const int64_t id = next_ticket_.fetch_add(1, std::memory_order_relaxed) * config_.data_parallel + rank;
  Submission submission{id, std::move(prompt), std::move(*admitted), std::move(sink)};
  if (!seats_[static_cast<size_t>(rank)].rank->submit(std::move(submission))) {
    return fail(Code::aborted, "The engine has stopped. " + failure());
  }
  return id;
}

void RunningEngine::abort(int64_t request) {
  if (request >= 0) seat(request).rank->abort(request);
}

int64_t RunningEngine::running() const {
  int64_t sum = 0;
  for (const Seat& seat : seats_) sum += seat.rank->load().open.load(std::memory_order_relaxed);
  return sum;
}

bool RunningEngine::drain(std::chrono::milliseconds limit) {
  Health ready = Health::ready;
  health_.compare_exchange_strong(ready, Health::draining);
  const auto deadline = device::Clock::now() + limit;
  while (running() > 0 && health() != Health::failed) {
    if (device::Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void RunningEngine::stop() {
  for (const auto& island : islands_) island->group.close();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace

Expected<std::unique_ptr<Engine>> Engine::start(Config config, const text::Tokenizer& tokenizer,
                                                telemetry::Metrics& metrics) {
  auto model = model::load_config(config.model);
  if (!model) return tl::unexpected(model.error());
  if (!config.served_name.empty()) model->name = config.served_name;
  const std::vector<std::string> errors = validate(config, *model);
  if (!errors.empty()) return fail(Code::config, fmt::format("{}", fmt::join(errors, "\n")));
  auto engine = std::make_unique<RunningEngine>(std::move(config), std::move(*model), tokenizer, metrics);
  if (auto loaded = engine->load(); !loaded) return tl::unexpected(loaded.error());
  return engine;
}

}  // namespace hocket::engine
