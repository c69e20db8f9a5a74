// Products against memory bandwidth (few rows, cold weights) and against oneDNN (many rows), in one process, turn by turn.
// gemm_bench [threads] [isa] [rounds]. Each figure is the best of `rounds` turns. oneDNN uses OpenMP with as many threads.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#ifdef HOCKET_HAS_DNNL
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include "device/cpu/cpu_device.h"
#include "ops/ops.h"

namespace hocket {
namespace {

using device::Buffer;
using device::DType;
using device::TensorView;
using quant::Bf16;

constexpr int64_t kColdBytes = 96 << 20;  // weights in rotation: more than any cache here
struct Shape {
  int64_t k, n;
};
constexpr Shape kShapes[] = {{2048, 768}, {768, 2048}, {256, 1024}};
constexpr int64_t kRows[] = {1, 2, 4, 8, 16, 64, 512};
constexpr int kTogether = 8;  // products a turn, as a layer enqueues several before anybody waits

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void fill(void* memory, int64_t bytes, uint16_t mask, uint16_t base) {
  uint64_t state = 1;
  auto* words = static_cast<uint16_t*>(memory);
  for (int64_t i = 0; i < bytes / 2; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    words[i] = static_cast<uint16_t>((static_cast<uint16_t>(state >> 48) & mask) + base);
  }
}

void fill(Buffer& buffer, uint16_t mask, uint16_t base) { fill(buffer.data(), buffer.size(), mask, base); }

/// Copies of one weight, so many that each is cold when its turn comes again.
struct Weights {
  Buffer packed, scales;
  std::vector<ops::PackedWeight> copies;
  size_t next = 0;

  Weights(Shape s, ops::WeightFormat format) {
    const bool fp8 = format == ops::WeightFormat::fp8_block;
    const int64_t bytes = ops::packed_bytes(s.n, s.k, format), count = kColdBytes / bytes;
    packed = Buffer(count * bytes);
    fill(packed, fp8 ? 0xBFBF : 0x81FF, fp8 ? 0 : 0x3E00);
    const int64_t scale_rows = (s.n + 127) / 128, scale_columns = (s.k + 127) / 128;
    scales = Buffer(scale_rows * scale_columns * 4);
    std::fill_n(reinterpret_cast<float*>(scales.data()), scale_rows * scale_columns, 0.5F);
    for (int64_t i = 0; i < count; ++i) {
      copies.push_back({s.n, s.k, format, TensorView(packed.data() + i * bytes, DType::u8, {bytes}), {}});
      if (fp8) copies.back().scales = TensorView(scales.data(), DType::f32, {scale_rows, scale_columns});
    }
  }
  const ops::PackedWeight& turn() { return copies[next++ % copies.size()]; }
};

/// GB/s of reading memory that is not in a cache, on the threads of `stream`.
double read_bandwidth(device::Stream& stream, int threads) {
  static constexpr int64_t kBytes = 256 << 20;
  Buffer buffer(kBytes);
  fill(buffer, 0xFFFF, 0);
  std::atomic<uint64_t> sink{0};
  double best = 1e9;
  for (int round = 0; round < 12; ++round) {
    best = std::min(best, seconds_of([&] {
      stream.launch({{"read"}, {}, [&](device::Parallel& parallel) {
                       constexpr int64_t kPiece = 1 << 20;
                       parallel.run(kBytes / kPiece, [&](int64_t index, int) {
                         const auto* from = reinterpret_cast<const uint64_t*>(buffer.data() + index * kPiece);
                         uint64_t sums[8] = {};
                         for (int64_t i = 0; i < kPiece / 8; i += 8) {
                           __builtin_prefetch(from + i + 256);
                           for (int lane = 0; lane < 8; ++lane) sums[lane] += from[i + lane];
                         }
                         for (uint64_t sum : sums) sink += sum;
                       });
                     }});
      stream.synchronize();
    }));
  }
  fmt::print("memory read, {} threads: {:.1f} GB/s\n", threads, static_cast<double>(kBytes) / best * 1e-9);
  return static_cast<double>(kBytes) / best * 1e-9;
}

#ifdef HOCKET_HAS_DNNL
/// oneDNN's matmul with weights in the layout that it prefers, also cold.
class Yardstick {
 public:
  Yardstick(int64_t m, Shape s, dnnl::memory::data_type type) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using dnnl::memory;
    using Tag = memory::format_tag;
    const memory::desc x({m, s.k}, type, Tag::ab), any({s.k, s.n}, type, Tag::any);
    const memory::desc y({m, s.n}, memory::data_type::f32, Tag::ab);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(x, any, y), engine_);
    matmul_ = dnnl::matmul(description);
    x_ = memory(x, engine_);
    y_ = memory(y, engine_);
    const auto bytes = static_cast<int64_t>(description.weights_desc().get_size());
    for (int64_t i = 0; i < std::max<int64_t>(1, kColdBytes / bytes); ++i) {
      weights_.emplace_back(description.weights_desc(), engine_);
      fill(weights_.back().get_data_handle(), bytes, 0x81FF, 0x3E00);  // zeros would run faster than weights do
    }
    fill(x_.get_data_handle(), static_cast<int64_t>(x.get_size()), 0x81FF, 0x3E00);
  }
  void operator()() {
    for (int i = 0; i < kTogether; ++i) {
      matmul_.execute(stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, weights_[next_++ % weights_.size()]}, {DNNL_ARG_DST, y_}});
    }
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul matmul_;
  dnnl::memory x_, y_;
  std::vector<dnnl::memory> weights_;
  size_t next_ = 0;
};

std::unique_ptr<Yardstick> yardstick(int64_t m, Shape s, dnnl::memory::data_type type) {
  try {
    return std::make_unique<Yardstick>(m, s, type);
  } catch (const dnnl::error&) {  // bf16 without AVX-512
    return nullptr;
  }
}
#endif

struct Runner {
  device::Stream& stream;
  double bandwidth;
  int rounds;

  /// Best seconds of a product, for each of `calls`, which do kTogether, taken turn by turn.
  std::vector<double> race(const std::vector<std::function<void()>>& calls) const {
    std::vector<double> best(calls.size(), 1e9);
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < calls.size(); ++i) {
        if (calls[i]) best[i] = std::min(best[i], seconds_of(calls[i]) / kTogether);
      }
    }
    return best;
  }

  void row(int64_t m, Shape s, Weights& bf16, Weights& fp8) const {
    Buffer x(m * s.k * 2), scales(m * ((s.k + 127) / 128) * 4), out(m * s.n * 4);
    fill(x, 0x81FF, 0x3E00);
    std::fill_n(reinterpret_cast<float*>(scales.data()), scales.size() / 4, 0.25F);
    const ops::Operand plain{TensorView(x.data(), DType::bf16, {m, s.k})};
    const ops::Operand scaled{plain.rows, TensorView(scales.data(), DType::f32, {m, (s.k + 127) / 128})};
    const TensorView y(out.data(), DType::f32, {m, s.n});
    const auto own = [&](const ops::Operand& operand, Weights& weights) {
      return [&] {
        for (int i = 0; i < kTogether; ++i) ops::gemm({stream}, y, operand, weights.turn());
        stream.synchronize();
      };
    };
    std::vector<std::function<void()>> calls{own(plain, bf16), own(scaled, fp8)};
#ifdef HOCKET_HAS_DNNL
    for (auto type : {dnnl::memory::data_type::f32, dnnl::memory::data_type::bf16}) {
      const std::shared_ptr<Yardstick> other = yardstick(m, s, type);
      calls.emplace_back(other == nullptr ? std::function<void()>() : [other] { (*other)(); });
    }
#endif
    calls.resize(4);
    const std::vector<double> t = race(calls);
    const double flops = 2e-9 * static_cast<double>(m * s.n * s.k), bytes = 1e-9 * static_cast<double>(s.n * s.k);
    fmt::print("{:5} {:5}x{:<5}|{:8.1f} {:7.1f} {:6.1f} {:5.2f} |{:8.1f} {:7.1f} {:6.1f} {:5.2f} |{:7.1f} {:5.2f} |{:7.1f} {:5.2f}\n",
               m, s.k, s.n, t[0] * 1e6, flops / t[0], 2 * bytes / t[0], 2 * bytes / t[0] / bandwidth, t[1] * 1e6,
               flops / t[1], bytes / t[1], bytes / t[1] / bandwidth, flops / t[2], t[2] / t[0],
               t[3] < 1e9 ? flops / t[3] : 0.0, t[3] < 1e9 ? t[3] / t[0] : 0.0);
    std::fflush(stdout);
  }
};

int run(int threads, Isa isa, int rounds) {
  device::cpu::CpuDevice cpu({.isa = isa, .threads = threads});
  const auto stream = cpu.make_stream("compute");
  fmt::print("isa {}, {} threads, best of {} turns, weights cold\n", name(isa), threads, rounds);
  const Runner runner{*stream, read_bandwidth(*stream, threads), rounds};
  fmt::print("                 | bf16: us, GF/s, GB/s, of memory  | fp8: us, GF/s, GB/s, of memory  | oneDNN f32, bf16: GF/s, its time / our bf16 time\n");
  for (Shape shape : kShapes) {
    Weights bf16(shape, ops::WeightFormat::bf16), fp8(shape, ops::WeightFormat::fp8_block);
    for (int64_t m : kRows) runner.row(m, shape, bf16, fp8);
  }
  return 0;
}

}  // namespace
}  // namespace hocket

int main(int argc, char** argv) {
  const char* threads = argc > 1 ? argv[1] : "1";
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {  // libgomp reads it when it is loaded: start again
    setenv("OMP_NUM_THREADS", threads, 1);
    execv("/proc/self/exe", argv);
  }
  const auto isa = hocket::parse_isa(argc > 2 ? argv[2] : "auto");
  if (!isa || std::atoi(threads) < 1) {
    fmt::print(stderr, "usage: gemm_bench [threads] [isa] [rounds]{}\n", isa ? "" : ": " + isa.error().message);
    return 2;
  }
  return hocket::run(std::atoi(threads), *isa, argc > 3 ? std::atoi(argv[3]) : 50);
}
