#include "comm/harness.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "device/cpu/cpu_device.h"
#include "device/cpu/seeded.h"
#include "quant/fp8.h"

namespace hocket::comm::harness {

using device::TensorView;

ReferenceInput make_input(const Config& config, int64_t tokens, uint64_t seed, Draw draw) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  ReferenceInput input{.tokens = tokens};
  for (int64_t i = 0; i < tokens * config.hidden; ++i) input.x.push_back(quant::to_bf16(normal(random)));
  for (int64_t i = 0; i < tokens * config.top_k; ++i) {
    const auto dice = [&] { return static_cast<int>(random() % 8); };
    auto id = static_cast<int32_t>(random() % static_cast<uint64_t>(config.experts));
    if (dice() < draw.skew) id %= config.local_experts();
    if (dice() < draw.repeats && i % config.top_k != 0) id = input.expert.back();
    if (dice() < draw.dropped) id = -1;
    input.expert.push_back(id);
    input.weight.push_back(dice() == 0 ? 0.0F : normal(random));
  }
  return input;
}

std::vector<quant::Bf16> expert_row(int expert, const ReferenceRow& row) {
  std::vector<quant::Bf16> y;
  for (size_t c = 0; c < row.values.size(); ++c) {
    float x = quant::to_float(row.values[c]);
    if (!row.scales.empty()) x *= row.scales[c / quant::kScaleBlock];
    y.push_back(quant::to_bf16(x * (1.0F + 0.125F * static_cast<float>(expert)) + static_cast<float>(expert % 5)));
  }
  return y;
}

Tokens draw_tokens(const Config& config, int steps, int layers, int ubatches, uint64_t seed) {
  std::mt19937_64 random(seed);
  const int64_t most = config.max_tokens;
  Tokens tokens(static_cast<size_t>(steps));
  for (auto& step : tokens) {
    step.resize(static_cast<size_t>(layers));
    for (auto& layer : step) {
      layer.resize(static_cast<size_t>(ubatches));
      for (auto& ubatch : layer) {
        for (int r = 0; r < config.ranks; ++r) {
          const int64_t any = static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1));
          ubatch.push_back(std::array{int64_t{0}, int64_t{1}, most - 1, most, any}[random() % 5]);
        }
      }
    }
  }
  return tokens;
}

/// What one rank makes of one round. Outlives the work that is enqueued on it.
struct Play::Cell {
  ReferenceReceived received;
  std::vector<float> expected;
  std::vector<quant::Bf16> y;
  std::vector<float> out;
  std::vector<std::string> wrong;  ///< written by the compute stream
};

Play::Play(const Script& script)
    : script_(script), layers_(static_cast<int>(script.tokens[0].size())),
      ubatches_(static_cast<int>(script.tokens[0][0].size())) {
  uint64_t seed = script.seed * 1'000'003;
  for (int step = 0; step < steps(); ++step) {
    for (int layer = 0; layer < layers_; ++layer) {
      for (int u = 0; u < ubatches_; ++u) {
        Group& group = groups_.emplace_back();
        for (int r = 0; r < script.config.ranks; ++r) {
          const int64_t tokens = script.tokens[static_cast<size_t>(step)][static_cast<size_t>(layer)]
                                              [static_cast<size_t>(u)][static_cast<size_t>(r)];
          group.input.push_back(make_input(script.config, tokens, ++seed, script.draw));
          if (script.edit) script.edit(group.input.back(), step, layer, u, r);
        }
        for (int r = 0; r < script.config.ranks; ++r) {
          auto cell = std::make_unique<Cell>();
          cell->received = reference_dispatch(script.config, r, group.input);
          const ReferenceInput& mine = group.input[static_cast<size_t>(r)];
          cell->expected = reference_combine(script.config, mine, expert_row);
          cell->y.resize(cell->received.rows.size() * static_cast<size_t>(script.config.hidden), {0xFFFF});
          cell->out.assign(mine.x.size(), -1.0F);
          group.cell.push_back(std::move(cell));
        }
      }
    }
  }
}
Play::~Play() = default;

const Play::Group& Play::at(int step, int layer, int ubatch) const {
  return groups_[static_cast<size_t>((step * layers_ + layer) * ubatches_ + ubatch)];
}

namespace {

/// Compares what arrived with the oracle, then computes y for the rows within counts only.
void check_and_compute(const Config& config, const Received& got, const ReferenceReceived& want, int first_expert,
                       quant::Bf16* y, std::vector<std::string>& wrong) {
  const int32_t* counts = got.counts.as<int32_t>();
  const int32_t* offsets = got.offsets.as<int32_t>();
  if (!std::equal(want.counts.begin(), want.counts.end(), counts)) wrong.emplace_back("counts");
  if (!std::equal(want.offsets.begin(), want.offsets.end(), offsets)) wrong.emplace_back("offsets");
  if (!wrong.empty()) return;
  const auto hidden = static_cast<size_t>(config.hidden);
  const size_t blocks = got.scales.empty() ? 0 : static_cast<size_t>(got.scales.dim(1));
  for (int e = 0; e < config.local_experts(); ++e) {
    for (int32_t i = offsets[e]; i < offsets[e] + counts[e]; ++i) {
      const auto position = static_cast<size_t>(i);
      ReferenceRow row;
      const quant::Bf16* values = got.rows.as<quant::Bf16>() + position * hidden;
      row.values.assign(values, values + hidden);
      if (blocks > 0) {
        const float* scales = got.scales.as<float>() + position * blocks;
        row.scales.assign(scales, scales + blocks);
      }
      const ReferenceRow& expected = want.rows[position];
      if (std::memcmp(row.values.data(), expected.values.data(), hidden * 2) != 0 || row.scales != expected.scales) {
        wrong.push_back("row " + std::to_string(i));
      }
      const std::vector<quant::Bf16> result = expert_row(first_expert + e, row);
      std::copy(result.begin(), result.end(), y + position * hidden);
    }
  }
}

}  // namespace

dbo::Task Play::pass(dbo::Ubatch& ub, AllToAll& a2a, int rank, int step) {
  const Config& config = script_.config;
  for (int layer = 0; layer < layers_; ++layer) {
    const Group& group = at(step, layer, ub.index);
    const ReferenceInput& input = group.input[static_cast<size_t>(rank)];
    Cell& cell = *group.cell[static_cast<size_t>(rank)];
    ub.layer = static_cast<int16_t>(layer);
    const int64_t tokens = input.tokens, hidden = config.hidden;
    // Nothing enqueued writes through these views.
    auto* x = const_cast<quant::Bf16*>(input.x.data());
    Routing routing;
    if (tokens > 0) {
      routing = {TensorView(const_cast<int32_t*>(input.expert.data()), device::DType::i32, {tokens, config.top_k}),
                 TensorView(const_cast<float*>(input.weight.data()), device::DType::f32, {tokens, config.top_k})};
    }
    Round round(a2a, ub);
    dbo::Exchange out(ub, round.dispatch(tokens > 0 ? TensorView(x, device::DType::bf16, {tokens, hidden}) : TensorView(), routing));
    co_await out;
    const Received received = round.received();
    const int first = rank * config.local_experts();
    ub.lane().launch("experts", {}, [&config, received, &cell, first](device::Parallel&) {
      check_and_compute(config, received, cell.received, first, cell.y.data(), cell.wrong);
    });
    const auto rows = static_cast<int64_t>(cell.received.rows.size());
    dbo::Exchange back(ub, round.combine(rows > 0 ? TensorView(cell.y.data(), device::DType::bf16, {rows, hidden}) : TensorView()));
    co_await back;
    round.finish(tokens > 0 ? TensorView(cell.out.data(), device::DType::f32, {tokens, hidden}) : TensorView());
  }
}

void Play::enqueue(int rank, int step, AllToAll& a2a, device::Stream& compute, device::Stream& comm) {
  std::vector<dbo::Ubatch> ubs;
  std::vector<dbo::Task> tasks;
  std::vector<dbo::Pass> passes;
  for (int u = 0; u < ubatches_; ++u) {
    ubs.push_back({.index = u, .compute = compute, .comm = comm, .arena = arena_, .overlap = dbo::Overlap::on});
  }
  for (auto& ub : ubs) tasks.push_back(pass(ub, a2a, rank, step));
  for (size_t u = 0; u < ubs.size(); ++u) passes.push_back({&ubs[u], &tasks[u]});
  dbo::run(passes);
}

int64_t Play::mismatches(int first_step) const {
  int64_t bad = 0;
  for (size_t g = static_cast<size_t>(first_step * layers_ * ubatches_); g < groups_.size(); ++g) {
    for (size_t r = 0; r < groups_[g].cell.size(); ++r) {
      const Cell& cell = *groups_[g].cell[r];
      std::string what = cell.wrong.empty() ? "" : cell.wrong.front();
      // Bits, so that -0 is not +0 and NaN is seen.
      if (!cell.out.empty() && std::memcmp(cell.out.data(), cell.expected.data(), cell.out.size() * 4) != 0) what += " out";
      if (what.empty()) continue;
      if (++bad <= 3) ADD_FAILURE() << "round " << g << " of the script, rank " << r << ", seed " << script_.seed << ": " << what;
    }
  }
  return bad;
}

Ends open_all(const Config& config, Hub& hub, const std::function<TestHooks(int)>& hooks) {
  Ends ends(static_cast<size_t>(config.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < config.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Config mine = config;
      mine.rank = rank;
      auto opened = open(mine, hub, hooks(rank));
      if (opened) ends[static_cast<size_t>(rank)] = std::move(*opened);
    });
  }
  for (auto& thread : threads) thread.join();
  return ends;
}

Ends open_all(const Config& config, Hub& hub, const TestHooks& hooks) {
  return open_all(config, hub, [&](int) { return hooks; });
}

bool reform_all(Ends& ends) {
  std::atomic<size_t> good{0};
  std::vector<std::thread> threads;
  for (auto& end : ends) {
    threads.emplace_back([&] { good += end->reform((uint64_t{1} << ends.size()) - 1).code == Code::ok; });
  }
  for (auto& thread : threads) thread.join();
  return good == ends.size();
}

int64_t play_seeded(Play& play, Ends& ends, uint64_t seed) {
  device::cpu::SeededDevice device(seed);
  std::vector<std::unique_ptr<device::Stream>> streams;
  for (size_t i = 0; i < 2 * ends.size(); ++i) streams.push_back(device.make_stream(i % 2 == 0 ? "compute" : "comm"));
  for (int step = 0; step < play.steps(); ++step) {
    for (size_t r = 0; r < ends.size(); ++r) {
      play.enqueue(static_cast<int>(r), step, *ends[r], *streams[2 * r], *streams[2 * r + 1]);
    }
  }
  device.drain();
  for (auto& stream : streams) stream->synchronize();
  return play.mismatches();
}

int64_t play_threads(Play& play, Ends& ends, int threads) {
  std::vector<std::exception_ptr> errors(ends.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < ends.size(); ++r) {
    ranks.emplace_back([&, r] {
      device::cpu::CpuDevice device({.isa = best_isa(), .threads = threads});
      const auto compute = device.make_stream("compute");
      const auto comm = device.make_stream("comm");
      try {
        for (int step = 0; step < play.steps(); ++step) play.enqueue(static_cast<int>(r), step, *ends[r], *compute, *comm);
        comm->synchronize();
        compute->synchronize();
      } catch (const std::exception& error) {
        ends[r]->abort(Code::aborted, error.what());
        errors[r] = std::current_exception();
      }
    });
  }
  for (auto& thread : ranks) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return play.mismatches();
}

}  // namespace hocket::comm::harness
