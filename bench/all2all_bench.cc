// Dispatch and combine between two ranks of one process, beside memcpy by the same two threads in the same run.
// Payload: the rows that the experts read (dispatch), the rows that the sum reads (combine); each is counted once,
// however often it is copied. all2all_bench [rounds]
#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "comm/threads.h"
#include "device/cpu/cpu_device.h"

namespace hocket {
namespace {

using device::Clock;
using device::TensorView;

struct Shape {
  const char* name;
  int experts, top_k, hidden;
  int64_t tokens;
};
constexpr Shape kShapes[] = {{"tiny-moe, 1 token", 16, 4, 256, 1},
                             {"tiny-moe, 32 tokens", 16, 4, 256, 32},
                             {"tiny-moe, 512 tokens", 16, 4, 256, 512},
                             {"Qwen3-30B-A3B, 512 tokens", 128, 8, 2048, 512}};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Bytes per second of one of two threads that copy at the same time.
double memcpy_rate(int64_t bytes) {
  double rate[2];
  std::barrier start(2);
  const auto run = [&](int index) {
    const auto size = static_cast<size_t>(bytes);
    std::vector<char> from(size, 1), to(size, 2);
    start.arrive_and_wait();
    const int repeats = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 30) / bytes, 4, 1000));
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) {
      std::memcpy(to.data(), from.data(), size);
      from[static_cast<size_t>(i) % size] = to[size / 2];  // keeps the copies
    }
    rate[index] = static_cast<double>(bytes) * repeats / seconds_since(begin);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  return std::min(rate[0], rate[1]);
}

struct Result {
  std::vector<double> dispatch, combine;
  int64_t rows = 0;  ///< that this rank's experts receive in a round
};

void run_rank(const comm::Config& config, comm::Hub& hub, const Shape& shape, int rounds, Result& result) {
  const auto a2a = *comm::open(config, hub);
  device::cpu::CpuDevice device({.isa = best_isa()});
  const auto compute = device.make_stream("compute");
  const auto comm_stream = device.make_stream("comm");
  device::Arena arena((config.capacity() + 3 * shape.tokens) * config.hidden * 8 + (1 << 20));
  const auto x = arena.make(device::DType::bf16, {shape.tokens, config.hidden});
  const auto y = arena.make(device::DType::bf16, {config.capacity(), config.hidden});
  const auto out = arena.make(device::DType::f32, {shape.tokens, config.hidden});
  const comm::Routing routing{arena.make(device::DType::i32, {shape.tokens, config.top_k}),
                              arena.make(device::DType::f32, {shape.tokens, config.top_k})};
  std::mt19937 random(static_cast<uint32_t>(config.rank));
  for (int64_t i = 0; i < x.elements(); ++i) x.as<quant::Bf16>()[i] = quant::to_bf16(static_cast<float>(random() % 100));
  for (int64_t i = 0; i < y.elements(); ++i) y.as<quant::Bf16>()[i] = quant::to_bf16(1.0F);
  for (int64_t i = 0; i < routing.expert.elements(); ++i) {
    routing.expert.as<int32_t>()[i] = static_cast<int32_t>(random() % static_cast<uint32_t>(config.experts));
    routing.weight.as<float>()[i] = 0.125F;
  }
  for (int i = -rounds / 10 - 2; i < rounds; ++i) {
    dbo::Ubatch ub{.compute = *compute, .comm = *comm_stream, .arena = arena};
    comm::Round round(*a2a, ub);
    auto begin = Clock::now();
    dbo::Exchange there(ub, round.dispatch(x, routing));
    there.await_resume();
    compute->synchronize();
    const double dispatch = seconds_since(begin);
    const comm::Received received = round.received();
    result.rows = 0;
    for (int e = 0; e < config.local_experts(); ++e) result.rows += received.counts.as<int32_t>()[e];
    begin = Clock::now();
    dbo::Exchange back(ub, round.combine(y));
    back.await_resume();
    round.finish(out);
    compute->synchronize();
    if (i >= 0) {
      result.dispatch.push_back(dispatch);
      result.combine.push_back(seconds_since(begin));
    }
  }
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void report(const Shape& shape, comm::Backend backend, comm::Wire wire, int rounds) {
  comm::Config config{.ranks = 2, .experts = shape.experts, .top_k = shape.top_k, .hidden = shape.hidden,
                      .max_tokens = shape.tokens, .backend = backend, .wire = wire};
  comm::Hub hub(2);
  Result result[2];
  comm::Config second = config;
  second.rank = 1;
  std::thread other([&] { run_rank(second, hub, shape, rounds, result[1]); });
  run_rank(config, hub, shape, rounds, result[0]);
  other.join();
  const auto received = static_cast<double>(result[0].rows * shape.hidden * 2);
  const auto summed = static_cast<double>(shape.tokens * shape.top_k * shape.hidden * 2);
  const double there = median(result[0].dispatch), back = median(result[0].combine);
  const double copied = memcpy_rate(static_cast<int64_t>(received));
  fmt::print("{:27} {:16} {:5} {:9.1f} {:7.2f} {:9.1f} {:7.2f} {:8.2f} {:7.0f} %\n", shape.name, comm::name(backend),
             wire == comm::Wire::bf16 ? "bf16" : "fp8", there * 1e6, received / there * 1e-9, back * 1e6,
             summed / back * 1e-9, copied * 1e-9, 100 * (received + summed) / (there + back) / copied);
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) {
  using hocket::comm::Backend;
  using hocket::comm::Wire;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  fmt::print("{:27} {:16} {:5} {:>9} {:>7} {:>9} {:>7} {:>8} {:>9}\n", "shape per rank, 2 ranks", "back end", "wire",
             "disp. us", "GB/s", "comb. us", "GB/s", "memcpy", "of memcpy");
  for (const auto& shape : hocket::kShapes) {
    for (const Backend backend : {Backend::high_throughput, Backend::low_latency, Backend::allgather}) {
      for (const Wire wire : {Wire::bf16, Wire::fp8_f32}) {
        hocket::report(shape, backend, wire, shape.tokens * shape.hidden > 500'000 ? rounds / 4 + 1 : rounds);
      }
    }
  }
  return 0;
}
