#include "engine/stepper.h"

#include <algorithm>

#include <fmt/format.h>

#include "dbo/run.h"

namespace hocket::engine {

using device::DType;

Stepper::Stepper(const model::Model& model, std::array<comm::AllToAll*, 2> exchanges, StepperOptions options)
    : model_(model),
      exchanges_(exchanges),
      options_(options),
      device_({.isa = options.isa, .threads = options.threads, .wait_timeout = options.timeout,
               .recorder = options.recorder, .rank = options.rank}),
      compute_(device_.make_stream("compute")),
      comm_(device_.make_stream("comm")) {
  const model::ModelConfig& config = model.config();
  int64_t pass_bytes = 0;
  for (const comm::AllToAll* exchange : exchanges_) {
    pass_bytes = std::max(pass_bytes, model.arena_bytes(options.max_batched_tokens, options.max_seqs, exchange->config()));
  }
  const int64_t max_blocks = (options.max_model_len + options.block_size - 1) / options.block_size;
  const int64_t meta_bytes =
      batch_bytes(options.max_batched_tokens, options.max_seqs, max_blocks, options.max_seqs, config.vocab);
  for (int i = 0; i < options.ubatches; ++i) arenas_.emplace_back(pass_bytes + meta_bytes);

  const ops::KvShape shape{options.kv_blocks, options.block_size, static_cast<int>(config.kv_heads),
                           static_cast<int>(config.head_dim)};
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    ops::KvCache cache{.shape = shape, .k = {}, .v = {}};
    for (ops::TensorView* view : {&cache.k, &cache.v}) {
      kv_memory_.emplace_back(shape.elements() * device::size_of(DType::bf16));
      *view = ops::TensorView(kv_memory_.back().data(), DType::bf16, {shape.elements()});
    }
    kv_.push_back(cache);
  }
}

Stepper::~Stepper() = default;

int64_t Stepper::arena_high_water() const {
  int64_t most = 0;
  for (const device::Arena& arena : arenas_) most = std::max(most, arena.high_water());
  return most;
}

std::vector<Sampled> Stepper::run(const dbo::StepPlan& plan, const dbo::Decision& decision, RowOf row_of) {
  enqueue_passes(plan, decision);
  enqueue_sampling(plan, row_of);
  compute_->synchronize();
  comm_->synchronize();
  require_ok();
  return std::move(sampled_);
}

void Stepper::enqueue_passes(const dbo::StepPlan& plan, const dbo::Decision& decision) {
  comm::AllToAll& exchange = *exchanges_[static_cast<size_t>(decision.mode)];
  shape_.cut = dbo::cut(plan, decision.ubatches, options_.cut);
  // A group of one has no wire, its exchange is a copy: a second thread would cost wake-ups and hide nothing.
  device::Stream& comm = exchange.config().ranks == 1 ? *compute_ : *comm_;
  const auto count = static_cast<size_t>(decision.ubatches);
  ubatches_.clear();
  batches_.clear();
  ubatches_.reserve(count);
  std::vector<dbo::Task> tasks;
  std::vector<dbo::Pass> passes;
  tasks.reserve(count);
  shape_.used = 0;
  for (size_t i = 0; i < count; ++i) {
    arenas_[i].reset();
    ubatches_.push_back(dbo::Ubatch{.index = static_cast<int>(i),
                                    .tokens = shape_.cut.ranges[i],
                                    .compute = *compute_,
                                    .comm = comm,
                                    .arena = arenas_[i],
                                    .overlap = decision.overlap});
    shape_.used += ubatches_[i].tokens.size() > 0 ? 1 : 0;
    batches_.push_back(build_batch(ubatches_[i], plan, options_.block_size, model_.config().vocab));
  }
  for (size_t i = 0; i < count; ++i) {
    tasks.push_back(model_.forward(ubatches_[i], batches_[i].batch, kv_, exchange));
    passes.push_back({&ubatches_[i], &tasks[i]});
  }
  dbo::run(passes);
}

void Stepper::enqueue_sampling(const dbo::StepPlan& plan, RowOf row_of) {
  size_t count = 0;
  for (const UbatchBatch& ubatch : batches_) count += ubatch.logit_rows.size();
  jobs_.clear();
  sampled_.assign(count, {});
  for (const UbatchBatch& ubatch : batches_) {
    float* logits = ubatch.batch.logits.as<float>();
    const auto vocab = static_cast<size_t>(model_.config().vocab);
    for (const LogitRow& row : ubatch.logit_rows) {
      Sampled& out = sampled_[jobs_.size()];
      out.plan_row = row.plan_row;
      jobs_.push_back({{logits, vocab}, row_of(plan.rows[static_cast<size_t>(row.plan_row)]), &out});
      logits += vocab;
    }
  }
  if (jobs_.empty()) return;
  const device::Cost cost{.memory_bytes = static_cast<double>(count) * 4.0 * static_cast<double>(model_.config().vocab)};
  device::Lane{*compute_}.launch("sample", cost, [jobs = std::span<const SampleJob>(jobs_)](device::Parallel& parallel) {
    parallel.run(static_cast<int64_t>(jobs.size()), [&](int64_t i, int) {
      const SampleJob& job = jobs[static_cast<size_t>(i)];
      job.out->sample = sample(job.logits, job.row);
    });
  });
}

void Stepper::require_ok() const {
  for (const comm::AllToAll* exchange : exchanges_) {
    const comm::Status status = exchange->status();
    if (status.code != Code::ok) throw Error(status.code, status.what);
  }
}

void Stepper::abandon(const std::string& why) noexcept {
  for (comm::AllToAll* exchange : exchanges_) exchange->abort(Code::aborted, why);
  settle();
}

void Stepper::settle() noexcept {
  for (device::Stream* stream : {compute_.get(), comm_.get()}) {
    try {
      stream->synchronize();
    } catch (const std::exception&) {
      // the first failure is what the caller reports; here only the stream must be empty
    }
    stream->clear_failure();
  }
}

}  // namespace hocket::engine
