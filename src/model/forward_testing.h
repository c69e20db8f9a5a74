// For tests only: runs a model's ranks as threads, step by step, with every logit brought out.
#pragma once
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include "comm/all2all.h"
#include "comm/threads.h"
#include "dbo/run.h"
#include "device/cpu/cpu_device.h"
#include "model/model.h"

namespace hocket::model::testing {

/// One request's new tokens in a step; they stand behind the tokens it had in earlier steps.
struct StepRow {
  int request = 0;
  std::vector<int32_t> tokens;
};
/// Logits of a step's tokens by request, [tokens, vocab].
using Logits = std::map<int, std::vector<float>>;

struct ForwardSetup {
  int ranks = 1, ubatches = 1, threads = 1;
  comm::Backend backend = comm::Backend::high_throughput;
  Isa isa = best_isa();
  int64_t max_tokens = 0;  ///< a rank and step
  int requests = 0;
};

/// The models of all ranks, rank by rank.
using Models = std::vector<std::unique_ptr<Model>>;
inline Models load_ranks(const std::filesystem::path& folder, const ModelConfig& config, int ranks,
                         LoadFormat format = LoadFormat::automatic) {
  Models models;
  for (int rank = 0; rank < ranks; ++rank) {
    auto model = load_model(folder, config, {.rank = rank, .ranks = ranks, .format = format});
    if (!model) throw Error(model.error().code, model.error().message);
    models.push_back(std::move(*model));
  }
  return models;
}

/// One rank: streams, KV memory, arenas. Request r owns blocks [r * kBlocks, (r + 1) * kBlocks) of every rank.
class RankRunner {
 public:
  static constexpr int64_t kBlockSize = 16, kBlocks = 40;
  /// The generic kernels under a sanitizer on a busy machine are slow, and that is no failure.
  static constexpr std::chrono::minutes kPatience{5};

  RankRunner(const Model& model, const ForwardSetup& setup, comm::AllToAll& a2a)
      : model_(model), setup_(setup), a2a_(a2a), device_({.isa = setup.isa, .threads = setup.threads, .wait_timeout = kPatience}),
        compute_(device_.make_stream("compute")), comm_(device_.make_stream("comm")), computed_(static_cast<size_t>(setup.requests)) {
    const ModelConfig& config = model.config();
    const ops::KvShape shape{setup.requests * kBlocks, kBlockSize, static_cast<int>(config.kv_heads),
                             static_cast<int>(config.head_dim)};
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      ops::KvCache cache{.shape = shape, .k = {}, .v = {}};
      for (ops::TensorView* view : {&cache.k, &cache.v}) {
        memory_.emplace_back(shape.elements() * 2);
        *view = ops::TensorView(memory_.back().data(), device::DType::bf16, {shape.elements()});
      }
      kv_.push_back(cache);
    }
    const int64_t bytes = model.arena_bytes(setup.max_tokens, setup.max_tokens, a2a.config());
    for (int i = 0; i < setup.ubatches; ++i) arenas_.emplace_back(bytes);
  }

  /// Cuts the tokens of all rows into equal ranges, inside requests too, and runs them as ubatches.
  void step(const std::vector<StepRow>& rows, Logits& out) {
    int64_t tokens = 0;
    for (const StepRow& row : rows) tokens += static_cast<int64_t>(row.tokens.size());
    std::vector<Part> parts(static_cast<size_t>(setup_.ubatches));
    std::vector<dbo::Ubatch> ubatches;
    std::vector<dbo::Task> tasks;
    std::vector<dbo::Pass> passes;
    ubatches.reserve(parts.size());
    tasks.reserve(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto at = [&](size_t k) { return tokens * static_cast<int64_t>(k) / static_cast<int64_t>(parts.size()); };
      fill(parts[i], rows, {at(i), at(i + 1)});
      arenas_[i].reset();
      ubatches.push_back({.index = static_cast<int>(i), .tokens = {at(i), at(i + 1)}, .compute = *compute_, .comm = *comm_,
                          .arena = arenas_[i], .overlap = setup_.ubatches > 1 ? dbo::Overlap::on : dbo::Overlap::off});
      tasks.push_back(model_.forward(ubatches[i], parts[i].batch, kv_, a2a_));
      passes.push_back({&ubatches[i], &tasks[i]});
    }
    dbo::run(passes);
    compute_->synchronize();
    comm_->synchronize();
    if (a2a_.status().code != Code::ok) throw Error(a2a_.status().code, a2a_.status().what);
    for (size_t i = 0; i < parts.size(); ++i) {
      collect(parts[i], out);
      const int64_t count = parts[i].batch.ids.rows();
      if (arenas_[i].used() != model_.arena_bytes(count, count, a2a_.config())) throw InvariantError("arena_bytes() is not what forward() used");
    }
    for (const StepRow& row : rows) computed_[static_cast<size_t>(row.request)] += static_cast<int64_t>(row.tokens.size());
  }

 private:
  /// One ubatch's input and the memory behind its views.
  struct Part {
    std::vector<int32_t> ids, positions, slots, query_start{0}, seq_lens, table, logit_rows, owner;
    std::vector<float> logits;
    Batch batch;
  };

  void fill(Part& part, const std::vector<StepRow>& rows, dbo::TokenRange range) {
    int64_t index = 0;  // of the token in the step
    for (const StepRow& row : rows) {
      const int64_t computed = computed_[static_cast<size_t>(row.request)];
      int64_t count = 0, last = 0;
      for (size_t i = 0; i < row.tokens.size(); ++i, ++index) {
        if (index < range.begin || index >= range.end) continue;
        const int64_t position = computed + static_cast<int64_t>(i);
        part.logit_rows.push_back(static_cast<int32_t>(part.ids.size()));
        part.ids.push_back(row.tokens[i]);
        part.positions.push_back(static_cast<int32_t>(position));
        part.slots.push_back(static_cast<int32_t>(row.request * kBlocks * kBlockSize + position));
        part.owner.push_back(row.request);
        ++count;
        last = position + 1;
      }
      if (count == 0) continue;
      part.query_start.push_back(static_cast<int32_t>(part.ids.size()));
      part.seq_lens.push_back(static_cast<int32_t>(last));
      for (int64_t b = 0; b < kBlocks; ++b) part.table.push_back(static_cast<int32_t>(row.request * kBlocks + b));
      part.batch.attention.attention_pairs += count * last;
    }
    const auto view = [](std::vector<int32_t>& data) {
      return ops::TensorView(data.data(), device::DType::i32, {static_cast<int64_t>(data.size())});
    };
    const auto count = static_cast<int64_t>(part.ids.size());
    part.logits.resize(part.ids.size() * static_cast<size_t>(model_.config().vocab));
    part.batch.ids = view(part.ids);
    part.batch.attention.positions = view(part.positions);
    part.batch.attention.slots = view(part.slots);
    part.batch.attention.query_start = view(part.query_start);
    part.batch.attention.seq_lens = view(part.seq_lens);
    part.batch.attention.block_table = {part.table.data(), device::DType::i32,
                                        {static_cast<int64_t>(part.seq_lens.size()), kBlocks}};
    part.batch.logit_rows = view(part.logit_rows);
    part.batch.logits = {part.logits.data(), device::DType::f32, {count, model_.config().vocab}};
  }

  void collect(const Part& part, Logits& out) const {
    const auto vocab = model_.config().vocab;
    for (size_t i = 0; i < part.owner.size(); ++i) {
      const auto row = part.logits.begin() + static_cast<int64_t>(i) * vocab;
      auto& logits = out[part.owner[i]];
      logits.insert(logits.end(), row, row + vocab);
    }
  }

  const Model& model_;
  ForwardSetup setup_;
  comm::AllToAll& a2a_;
  device::cpu::CpuDevice device_;
  std::unique_ptr<device::Stream> compute_, comm_;
  std::vector<int64_t> computed_;  // by request: tokens in the cache
  std::vector<device::Buffer> memory_;
  std::vector<ops::KvCache> kv_;
  std::vector<device::Arena> arenas_;
};

/// Runs the steps on all ranks in lockstep; request r lives on rank r % ranks. Returns each step's logits.
inline std::vector<Logits> run_steps(const Models& models, const ForwardSetup& setup,
                                     const std::vector<std::vector<StepRow>>& steps) {
  comm::Hub hub(setup.ranks);
  std::vector<std::vector<Logits>> outs(models.size(), std::vector<Logits>(steps.size()));
  std::vector<std::exception_ptr> errors(models.size());
  const auto body = [&](size_t rank) {
    std::unique_ptr<comm::AllToAll> a2a;
    try {
      comm::Config config = models[rank]->exchange_config();
      config.rank = static_cast<int>(rank);
      config.ranks = setup.ranks;
      config.max_tokens = setup.max_tokens;
      config.max_ubatches = setup.ubatches;
      config.backend = setup.backend;
      config.timeout = RankRunner::kPatience;
      auto opened = comm::open(config, hub);
      if (!opened) throw Error(opened.error().code, opened.error().message);
      a2a = std::move(*opened);
      RankRunner runner(*models[rank], setup, *a2a);
      for (size_t step = 0; step < steps.size(); ++step) {
        std::vector<StepRow> own;
        for (const StepRow& row : steps[step]) {
          if (row.request % setup.ranks == static_cast<int>(rank)) own.push_back(row);
        }
        runner.step(own, outs[rank][step]);
      }
    } catch (...) {
      errors[rank] = std::current_exception();
      if (a2a != nullptr) a2a->abort(Code::aborted, "a rank of the test failed");
    }
  };
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < models.size(); ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (size_t rank = 1; rank < outs.size(); ++rank) {
    for (size_t step = 0; step < steps.size(); ++step) outs[0][step].merge(outs[rank][step]);
  }
  return outs[0];
}

}  // namespace hocket::model::testing
