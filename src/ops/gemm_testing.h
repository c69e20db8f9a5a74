// What the tests of products share: a device that runs at once, random operands, and oracles that know nothing of tiles.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "device/cpu/float_mode.h"
#include "ops/ops.h"

namespace hocket::ops::testing {

using quant::Bf16;
using quant::E4m3;

/// Hands out indices to `width` threads that start anew for each run.
class Threads final : public device::Parallel {
 public:
  explicit Threads(int width) : width_(width) {}
  int width() const override { return width_; }
  void run(int64_t count, FunctionRef<void(int64_t, int)> body) override {
    std::atomic<int64_t> next{0};
    const auto serve = [&](int worker) {
      const device::cpu::FlushDenormals flush;
      for (int64_t i = next++; i < count; i = next++) body(i, worker);
    };
    std::vector<std::thread> others;
    for (int worker = 1; worker < width_; ++worker) others.emplace_back(serve, worker);
    serve(0);
    for (std::thread& other : others) other.join();
  }

 private:
  int width_;
};

/// Runs what is launched before launch() returns, and remembers the last launch.
class Now final : public device::Device, public device::Stream {
 public:
  explicit Now(Isa isa, int threads = 1) : isa_(isa), threads_(threads) {}
  std::unique_ptr<device::Stream> make_stream(std::string_view) override { return nullptr; }
  Isa isa() const override { return isa_; }
  void launch(device::Work work) override {
    ++launches;
    last = work.label;
    cost = work.cost;
    work.body(threads_);
  }
  device::Event record() override { return {}; }
  void wait(const device::Event&) override {}
  void synchronize() override {}
  void clear_failure() override {}
  device::Device& device() override { return *this; }
  Lane lane() { return {*this, 0, 3}; }

  int launches = 0;
  device::Label last;
  device::Cost cost;

 private:
  Isa isa_;
  Threads threads_;
};

/// Once per instruction set; those that this processor lacks are skipped with a word.
class EachIsa : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (GetParam() > best_isa()) GTEST_SKIP() << "this processor has no " << name(GetParam());
  }
  device::cpu::FlushDenormals flush_;
};
inline std::string isa_name(const ::testing::TestParamInfo<Isa>& info) { return std::string(name(info.param)); }

inline int64_t groups_of(int64_t k) { return (k + 127) / 128; }

/// Row-major operands as a model has them.
struct Matrix {
  int64_t rows = 0, k = 0;
  std::vector<Bf16> values;      ///< bf16, or e4m3 codes as bf16 values
  std::vector<float> scales;     ///< empty, or as Operand::scales (activations), PackedWeight::scales (weights)
  std::vector<E4m3> codes;       ///< of fp8 weights
  Operand operand() {
    Operand x{TensorView(values.data(), device::DType::bf16, {rows, k})};
    if (!scales.empty()) x.scales = TensorView(scales.data(), device::DType::f32, {rows, groups_of(k)});
    return x;
  }
  WeightPart part() {
    if (codes.empty()) return {TensorView(values.data(), device::DType::bf16, {rows, k}), {}};
    return {TensorView(codes.data(), device::DType::e4m3, {rows, k}),
            TensorView(scales.data(), device::DType::f32, {groups_of(rows), groups_of(k)})};
  }
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  /// Mostly around 1; some zeros, and some so small that products and values are denormal.
  Bf16 number() {
    const auto kind = engine_() % 64;
    if (kind == 0) return {static_cast<uint16_t>(engine_() % 2 << 15)};
    if (kind == 1) return {static_cast<uint16_t>((engine_() % 2 << 15) | engine_() % 0x80)};
    const auto exponent = kind == 2 ? 1 + engine_() % 80 : 120 + engine_() % 10;
    return {static_cast<uint16_t>((engine_() % 2 << 15) | exponent << 7 | engine_() % 128)};
  }
  E4m3 code() {
    const auto bits = static_cast<uint8_t>(engine_());
    return {static_cast<uint8_t>((bits & 0x7F) == 0x7F ? bits - 1 : bits)};
  }
  float scale() { return std::ldexp(1.0F + static_cast<float>(engine_() % 4096) / 4096, -12 + static_cast<int>(engine_() % 6)); }

  Matrix activations(int64_t rows, int64_t k) {
    Matrix x{rows, k, {}, {}, {}};
    for (int64_t i = 0; i < rows * k; ++i) x.values.push_back(number());
    return x;
  }
  /// Codes and scales; every fifth group of 128 is all zeros.
  Matrix quantized(int64_t rows, int64_t k) {
    Matrix x{rows, k, {}, {}, {}};
    for (int64_t i = 0; i < rows * k; ++i) {
      x.values.push_back(quant::to_bf16(i / 128 % 5 == 0 ? 0.0F : quant::to_float(code())));
    }
    for (int64_t i = 0; i < rows * groups_of(k); ++i) x.scales.push_back(scale());
    return x;
  }
  Matrix fp8_weight(int64_t n, int64_t k) {
    Matrix w{n, k, {}, {}, {}};
    for (int64_t i = 0; i < n * k; ++i) {
      w.codes.push_back(i / 128 % 7 == 0 ? E4m3{0} : code());
      w.values.push_back(quant::to_bf16(quant::to_float(w.codes.back())));
    }
    for (int64_t i = 0; i < groups_of(n) * groups_of(k); ++i) w.scales.push_back(scale());
    return w;
  }

 private:
  std::mt19937 engine_;
};

/// One output in the promised order (kernels/cpu/gemm.h), written from that text.
inline float oracle(const Matrix& x, int64_t m, const Matrix& w, int64_t n) {
  const auto at = [](const Matrix& a, int64_t row, int64_t k) {
    return k < a.k ? quant::to_float(a.values[static_cast<size_t>(row * a.k + k)]) : 0.0F;
  };
  const auto sum = [&](int64_t begin, int64_t end) {
    float acc = 0;
    for (int64_t k = begin; k < end; k += 2) {
      acc = std::fma(at(x, m, k), at(w, n, k), std::fma(at(x, m, k + 1), at(w, n, k + 1), acc));
    }
    return acc;
  };
  if (w.codes.empty()) return sum(0, w.k);
  float out = 0;
  for (int64_t g = 0; g < groups_of(w.k); ++g) {
    float scale = w.scales[static_cast<size_t>(n / 128 * groups_of(w.k) + g)];
    if (!x.scales.empty()) scale *= x.scales[static_cast<size_t>(m * groups_of(w.k) + g)];
    out = std::fma(scale, sum(g * 128, std::min(w.k, g * 128 + 128)), out);
  }
  return out;
}
inline std::vector<float> oracle(const Matrix& x, const Matrix& w) {
  std::vector<float> out;
  for (int64_t m = 0; m < x.rows; ++m) {
    for (int64_t n = 0; n < w.rows; ++n) out.push_back(oracle(x, m, w, n));
  }
  return out;
}

/// A packed weight with its memory.
struct Packed {
  device::Buffer memory;
  std::vector<float> scales;
  PackedWeight weight;
};
inline Packed pack_all(std::span<Matrix> parts) {
  std::vector<WeightPart> views;
  int64_t n = 0;
  for (Matrix& part : parts) {
    views.push_back(part.part());
    n += part.rows;
  }
  const auto format = parts[0].codes.empty() ? WeightFormat::bf16 : WeightFormat::fp8_block;
  Packed packed{device::Buffer(packed_bytes(n, parts[0].k, format)), {}, {}};
  packed.scales.resize(static_cast<size_t>(groups_of(n) * groups_of(parts[0].k)));
  packed.weight = pack(views, packed.memory.data(), packed.scales.data());
  return packed;
}
inline Packed pack_one(Matrix& matrix) { return pack_all(std::span(&matrix, 1)); }

inline std::vector<uint32_t> bits(const std::vector<float>& values) {
  std::vector<uint32_t> out;
  for (float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

}  // namespace hocket::ops::testing
