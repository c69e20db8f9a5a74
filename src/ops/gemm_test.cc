#include <fmt/format.h>

#include <cmath>

#include "ops/gemm_testing.h"

namespace hocket::ops::testing {
namespace {

struct Shape {
  int64_t m, n, k;
};
// N ragged against tiles (40, 17) and blocks of tiles (200); K odd, ragged against 128 and 256, longer than one panel.
constexpr Shape kShapes[] = {{5, 768, 2048}, {9, 128, 2048}, {33, 256, 256}, {3, 40, 96},  {2, 17, 33},   {1, 1, 1},
                             {13, 40, 192},  {26, 200, 333}, {1, 200, 700},  {2, 144, 130}, {100, 48, 129}, {4, 16, 1023}};

std::vector<float> run(Isa isa, int threads, Matrix& x, const PackedWeight& w, Store store = Store::assign,
                       std::vector<float> out = {}) {
  out.resize(static_cast<size_t>(x.rows * w.n), 99.0F);
  Now now(isa, threads);
  gemm(now.lane(), TensorView(out.data(), device::DType::f32, {x.rows, w.n}), x.operand(), w, store);
  return out;
}

class Gemm : public EachIsa {};
INSTANTIATE_TEST_SUITE_P(, Gemm, ::testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16), isa_name);

TEST_P(Gemm, Bf16HasTheBitsOfTheScalarOrder) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", s.m, s.n, s.k));
    Random random(static_cast<uint32_t>(s.m + s.n + s.k));
    Matrix x = random.activations(s.m, s.k), w = random.activations(s.n, s.k);
    const Packed packed = pack_one(w);
    EXPECT_EQ(bits(run(GetParam(), 1, x, packed.weight)), bits(oracle(x, w)));
  }
}

TEST_P(Gemm, Fp8HasTheBitsOfTheScalarOrder) {
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", s.m, s.n, s.k));
    Random random(static_cast<uint32_t>(s.m + s.n + s.k));
    Matrix w = random.fp8_weight(s.n, s.k), codes = random.quantized(s.m, s.k), plain = random.activations(s.m, s.k);
    const Packed packed = pack_one(w);
    EXPECT_EQ(bits(run(GetParam(), 1, codes, packed.weight)), bits(oracle(codes, w)));
    EXPECT_EQ(bits(run(GetParam(), 1, plain, packed.weight)), bits(oracle(plain, w))) << "weights only";
  }
}

TEST_P(Gemm, EveryE4m3CodeIsExact) {
  Matrix w{16, 256, {}, {1.0F, 1.0F}, {}};
  for (int64_t i = 0; i < 16 * 256; ++i) {
    const auto code = static_cast<uint8_t>(i % 256);
    w.codes.push_back({(code & 0x7F) == 0x7F ? uint8_t{0} : code});
    w.values.push_back(quant::to_bf16(quant::to_float(w.codes.back())));
  }
  const Packed packed = pack_one(w);
  for (int64_t rows : {1, 2, 4, 16}) {  // row m picks column k = m + 16 i
    for (int64_t i = 0; i < 16; ++i) {
      Matrix x{rows, 256, std::vector<Bf16>(static_cast<size_t>(rows * 256)), {}, {}};
      for (int64_t m = 0; m < rows; ++m) x.values[static_cast<size_t>(m * 256 + m + 16 * i)] = quant::to_bf16(1.0F);
      const std::vector<float> out = run(GetParam(), 1, x, packed.weight);
      for (int64_t m = 0; m < rows; ++m) {
        const float expected = quant::to_float(w.codes[static_cast<size_t>(m + 16 * i)]);
        EXPECT_EQ(out[static_cast<size_t>(m * 16)], expected) << "code " << m + 16 * i;
      }
    }
  }
}

TEST_P(Gemm, ARowDoesNotDependOnItsCompanyOrOnThreads) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{768, 2048}, {128, 2048}, {256, 256}, {40, 192}}) {
    Random random(static_cast<uint32_t>(n));
    Matrix bf16 = random.activations(n, k), fp8 = random.fp8_weight(n, k);
    Matrix plain = random.activations(64, k), codes = random.quantized(64, k);
    const Packed packed[2] = {pack_one(bf16), pack_one(fp8)};
    for (int format = 0; format < 2; ++format) {
      Matrix& all = format == 0 ? plain : codes;
      const std::vector<float> expected = run(GetParam(), 1, all, packed[format].weight);
      for (int64_t m : {1, 2, 3, 4, 5, 8, 16, 31, 32, 48}) {
        SCOPED_TRACE(fmt::format("{} x {}, format {}, {} rows", n, k, format, m));
        const int64_t first = (64 - m) / 2;
        Matrix some{m, k, {all.values.begin() + first * k, all.values.begin() + (first + m) * k}, {}, {}};
        if (format == 1) {
          some.scales.assign(all.scales.begin() + first * groups_of(k), all.scales.begin() + (first + m) * groups_of(k));
        }
        const std::vector<float> rows(expected.begin() + first * n, expected.begin() + (first + m) * n);
        for (int threads : {1, 2, 7}) EXPECT_EQ(bits(run(GetParam(), threads, some, packed[format].weight)), bits(rows));
      }
    }
  }
}

TEST_P(Gemm, AddRoundsOnce) {
  Random random(5);
  Matrix x = random.activations(7, 300), w = random.activations(40, 300);
  const Packed packed = pack_one(w);
  std::vector<float> before(7 * 40);
  for (size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(i) / 3;
  std::vector<float> expected = oracle(x, w);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = before[i] + expected[i];
  EXPECT_EQ(bits(run(GetParam(), 2, x, packed.weight, Store::add, before)), bits(expected));
}

// Against float64. K fused operations, each off by at most u = 2^-24 of a partial sum that |x| |w| bounds, and for FP8
// two more roundings of a scale and a sum a group: |error| <= 1.01 (K + 3 groups) u sum |x w|, and denormals: K 2^-126.
TEST_P(Gemm, IsWithinTheDerivedBoundOfFloat64) {
  Random random(11);
  const int64_t n = 96, k = 1000;
  Matrix plain = random.activations(6, k), codes = random.quantized(6, k);
  Matrix bf16 = random.activations(n, k), fp8 = random.fp8_weight(n, k);
  for (Matrix* w : {&bf16, &fp8}) {
    Matrix& x = w == &bf16 ? plain : codes;
    const Packed packed = pack_one(*w);
    const std::vector<float> out = run(GetParam(), 1, x, packed.weight);
    for (int64_t i = 0; i < 6 * n; ++i) {
      double sum = 0, size = 0;
      for (int64_t j = 0; j < k; ++j) {
        double term = double{quant::to_float(x.values[static_cast<size_t>(i / n * k + j)])} *
                      double{quant::to_float(w->values[static_cast<size_t>(i % n * k + j)])};
        if (w == &fp8) {
          term *= double{x.scales[static_cast<size_t>(i / n * groups_of(k) + j / 128)]} *
                  double{w->scales[static_cast<size_t>(i % n / 128 * groups_of(k) + j / 128)]};
        }
        sum += term;
        size += std::fabs(term);
      }
      const double bound = 1.01 * static_cast<double>(k + 3 * groups_of(k)) * 0x1p-24 * size + 1000 * 0x1p-126;
      EXPECT_NEAR(double{out[static_cast<size_t>(i)]}, sum, bound);
    }
  }
}

TEST(GemmOp, NamesItselfAndStatesItsCost) {
  const device::cpu::FlushDenormals flush;
  Random random(1);
  Matrix x = random.activations(3, 64), w = random.activations(32, 64);
  const Packed packed = pack_one(w);
  std::vector<float> out(3 * 32);
  Now now(Isa::generic);
  gemm(now.lane(), TensorView(out.data(), device::DType::f32, {3, 32}), x.operand(), packed.weight, Store::add, "logits");
  EXPECT_EQ(now.last.str(), "u0/L3/logits");
  EXPECT_EQ(now.cost.flops, 2.0 * 3 * 32 * 64);
  EXPECT_EQ(now.cost.memory_bytes, 2.0 * 32 * 64 + 2.0 * 3 * 64 + 2 * 4.0 * 3 * 32);
}

TEST(GemmOp, NoRowsNoLaunch) {
  Random random(1);
  Matrix x{0, 64, {}, {}, {}}, w = random.activations(32, 64);
  const Packed packed = pack_one(w);
  Now now(Isa::generic);
  gemm(now.lane(), TensorView(nullptr, device::DType::f32, {0, 32}), x.operand(), packed.weight);
  EXPECT_EQ(now.launches, 0);
}

TEST(GemmOp, RefusesWrongShapes) {
  Random random(1);
  Matrix x = random.activations(3, 64), w = random.activations(32, 64), codes = random.quantized(3, 64);
  Matrix narrow = random.activations(3, 63);
  const Packed packed = pack_one(w);
  std::vector<float> memory(3 * 32);
  const TensorView out(memory.data(), device::DType::f32, {3, 32});
  Now now(Isa::generic);
  EXPECT_THROW(gemm(now.lane(), out.slice(0, 2), x.operand(), packed.weight), ShapeError);
  EXPECT_THROW(gemm(now.lane(), out, narrow.operand(), packed.weight), ShapeError);
  EXPECT_THROW(gemm(now.lane(), out, codes.operand(), packed.weight), ShapeError) << "scales for bf16 weights";
  EXPECT_EQ(now.launches, 0);
}

}  // namespace
}  // namespace hocket::ops::testing
