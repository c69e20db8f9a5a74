// Attention beside what the machine can do: GFLOP/s against the FMA rate, GB/s of keys and values
// against the rate at which memory is read, all measured in this run on the same threads. Usage:
// attention_bench [isa] [threads].
#include <immintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/cpu/pool.h"
#include "ops/ops.h"

namespace {

using namespace hocket;
using device::Clock;
using device::DType;
using quant::Bf16;

constexpr int kHeads = 8, kKvHeads = 2, kHeadDim = 64;  // the tiny model's

/// Seconds of the fastest of some repetitions, after one that is not counted.
template <class Body>
double fastest(Body body) {
  double best = 1e9, total = 0;
  body();
  for (int i = 0; i < 200 && (i < 5 || total < 1.0); ++i) {
    const auto begin = Clock::now();
    body();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

constexpr int64_t kFmaSteps = 2'000'000;
[[gnu::target("avx2,fma")]] double fma_flops_avx2(float* out) {
  __m256 sums[12];
  for (__m256& sum : sums) sum = _mm256_set1_ps(1.0F);
  const __m256 a = _mm256_set1_ps(0.999F), b = _mm256_set1_ps(0.001F);
  for (int64_t i = 0; i < kFmaSteps; ++i) {
#pragma GCC unroll 12  // keeps the sums in registers
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  }
  for (const __m256& sum : sums) *out += _mm256_cvtss_f32(sum);
  return 12 * 8 * 2.0 * kFmaSteps;
}
[[gnu::target("avx512f")]] double fma_flops_avx512(float* out) {
  __m512 sums[12];
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0F);
  const __m512 a = _mm512_set1_ps(0.999F), b = _mm512_set1_ps(0.001F);
  for (int64_t i = 0; i < kFmaSteps; ++i) {
#pragma GCC unroll 12
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, a, b);
  }
  for (const __m512& sum : sums) *out += _mm512_cvtss_f32(sum);
  return 12 * 16 * 2.0 * kFmaSteps;
}

double fma_gflops(Isa isa, device::Parallel& threads) {
  std::vector<float> out(static_cast<size_t>(threads.width()) * 16);
  std::vector<double> flops(out.size());
  const double seconds = fastest([&] {
    threads.run(threads.width(), [&](int64_t index, int) {
      const auto i = static_cast<size_t>(index);
      flops[i] = isa >= Isa::avx512 ? fma_flops_avx512(&out[i * 16]) : fma_flops_avx2(&out[i * 16]);
    });
  });
  return std::accumulate(flops.begin(), flops.end(), 0.0) / seconds * 1e-9;
}

double read_gbytes(device::Parallel& threads) {
  constexpr int64_t kWords = 16 << 20, kPieces = 256;  // 128 MiB: larger than the caches
  std::vector<uint64_t> memory(kWords, 1);
  std::vector<uint64_t> sums(kPieces);
  const double seconds = fastest([&] {
    threads.run(kPieces, [&](int64_t piece, int) {
      const uint64_t* from = memory.data() + piece * (kWords / kPieces);
      uint64_t sum[4] = {};
      for (int64_t i = 0; i < kWords / kPieces; i += 4) {
        for (int lane = 0; lane < 4; ++lane) sum[lane] += from[i + lane];
      }
      sums[static_cast<size_t>(piece)] += sum[0] + sum[1] + sum[2] + sum[3];
    });
  });
  return 8.0 * kWords / seconds * 1e-9;
}

/// `parts` sequences of `keys` keys, the last `queries` of each being computed.
struct Batch {
  int64_t parts, queries, keys;
};

struct Inputs {
  explicit Inputs(const Batch& batch)
      : shape{batch.parts * blocks_of(batch), 16, kKvHeads, kHeadDim} {
    std::mt19937 random(1);
    const auto number = [&] {
      return static_cast<float>(static_cast<int>(random() % 2001) - 1000) * 1e-3F;
    };
    k.resize(static_cast<size_t>(shape.elements()));
    for (Bf16& value : k) value = quant::to_bf16(number());
    v = k;
    q.resize(static_cast<size_t>(batch.parts * batch.queries * kHeads * kHeadDim));
    for (float& value : q) value = number();
    out.resize(q.size());
    table.resize(static_cast<size_t>(shape.blocks));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random);
    for (int64_t p = 0; p <= batch.parts; ++p)
      query_start.push_back(static_cast<int32_t>(p * batch.queries));
    seq_lens.assign(static_cast<size_t>(batch.parts), static_cast<int32_t>(batch.keys));
  }
  static int64_t blocks_of(const Batch& batch) { return (batch.keys + 15) / 16; }

  ops::KvShape shape;
  std::vector<Bf16> k, v, out;
  std::vector<float> q;
  std::vector<int32_t> table, query_start, seq_lens;
};

void measure(device::Stream& stream, const Batch& batch, double peak_gflops, double peak_gbytes) {
  Inputs in(batch);
  const int64_t tokens = batch.parts * batch.queries;
  ops::AttentionMeta meta;
  meta.query_start = {in.query_start.data(), DType::i32, {batch.parts + 1}};
  meta.seq_lens = {in.seq_lens.data(), DType::i32, {batch.parts}};
  meta.block_table = {in.table.data(), DType::i32, {batch.parts, Inputs::blocks_of(batch)}};
  meta.attention_pairs = batch.parts * (batch.queries * (batch.keys - batch.queries) +
                                        batch.queries * (batch.queries + 1) / 2);
  const ops::KvCache cache{in.shape,
                           {in.k.data(), DType::bf16, {in.shape.elements()}},
                           {in.v.data(), DType::bf16, {in.shape.elements()}}};
  const double seconds = fastest([&] {
    ops::attention({stream}, {in.out.data(), DType::bf16, {tokens, kHeads * kHeadDim}},
                   {in.q.data(), DType::f32, {tokens, kHeads, kHeadDim}}, meta, cache);
    stream.synchronize();
  });
  const double gflops =
      4.0 * static_cast<double>(meta.attention_pairs * kHeads * kHeadDim) / seconds * 1e-9;
  const double gbytes =
      4.0 * static_cast<double>(batch.parts * batch.keys * kKvHeads * kHeadDim) / seconds * 1e-9;
  std::printf(
      "%4ld x %4ld queries, %4ld keys  %9.1f us  %7.1f GFLOP/s (%3.0f %%)  %6.2f GB/s (%3.0f %%)\n",
      batch.parts, batch.queries, batch.keys, seconds * 1e6, gflops, 100 * gflops / peak_gflops,
      gbytes, 100 * gbytes / peak_gbytes);
}

}  // namespace

int main(int argc, char** argv) {
  const auto isa = parse_isa(argc > 1 ? argv[1] : "auto");
  if (!isa) return std::fprintf(stderr, "%s\n", isa.error().message.c_str()), 1;
  const int threads =
      argc > 2 ? std::atoi(argv[2]) : static_cast<int>(std::thread::hardware_concurrency());
  double gflops = 0, gbytes = 0;
  {
    device::cpu::Pool pool(threads);
    gflops = fma_gflops(*isa, pool);
    gbytes = read_gbytes(pool);
  }
  std::printf("%s, %d threads: FMA %.1f GFLOP/s, memory read %.1f GB/s\n",
              std::string(name(*isa)).c_str(), threads, gflops, gbytes);
  device::cpu::CpuDevice device({.isa = *isa, .threads = threads});
  const auto stream = device.make_stream("compute");
  measure(*stream, {1, 1024, 1024}, gflops, gbytes);
  measure(*stream, {1, 512, 4096}, gflops, gbytes);
  for (int64_t batch : {1, 8, 32}) {
    for (int64_t keys : {512, 4096}) measure(*stream, {batch, 1, keys}, gflops, gbytes);
  }
}
