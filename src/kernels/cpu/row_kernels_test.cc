#include "kernels/cpu/row_kernels.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/isa.h"
#include "kernels/cpu/row_rotary.h"
#include "quant/fp8.h"

namespace hocket::kernels {
namespace {

using quant::Bf16;
using Floats = std::vector<float>;
using Bf16s = std::vector<Bf16>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Isa> isas() {
  std::vector<Isa> all;
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa <= best_isa()) all.push_back(isa);
  }
  return all;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Like the worker threads: denormals are zero.
class RowKernelsTest : public ::testing::Test {
 protected:
  RowKernelsTest() { _mm_setcsr(before_ | 0x8040); }
  ~RowKernelsTest() override { _mm_setcsr(before_); }

  float uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  Floats floats(int64_t count, float low = -3, float high = 3) {
    Floats out(static_cast<size_t>(count));
    for (float& value : out) value = uniform(low, high);
    return out;
  }
  Bf16s bf16s(int64_t count) {
    Bf16s out;
    for (float value : floats(count)) out.push_back(quant::to_bf16(value));
    return out;
  }
  /// Lengths around the lane count and the scale block.
  const std::vector<int64_t> lengths_{0,  1,  2,   7,   8,   9,   15,  16,  17, 31,
                                      33, 64, 100, 127, 128, 129, 256, 300, 768};
  const RowKernels& generic_ = row_kernels(Isa::generic);

 private:
  const unsigned before_ = _mm_getcsr();
  std::mt19937 random_{7};
};

TEST_F(RowKernelsTest, Avx512IsTestedHere) {
  if (best_isa() < Isa::avx512)
    GTEST_SKIP() << "this processor has no AVX-512: its kernels are compiled, not run";
}

TEST_F(RowKernelsTest, EveryInstructionSetGivesTheBitsOfGeneric) {
  for (Isa isa : isas()) {
    const RowKernels& kernels = row_kernels(isa);
    for (int64_t n : lengths_) {
      SCOPED_TRACE(testing::Message() << name(isa) << ", " << n << " elements");
      const Floats x = floats(n, -90, 90), y = floats(n), w = floats(n);
      const auto size = static_cast<size_t>(n);
      const auto both = [&](auto run) {
        auto a = run(generic_), b = run(kernels);
        EXPECT_TRUE(same(a, b));
      };
      both([&](const RowKernels& k) {
        Bf16s out(size);
        k.silu_mul(n, x.data(), y.data(), out.data());
        return out;
      });
      both([&](const RowKernels& k) {
        Floats out(size);
        k.exp(n, x.data(), out.data());
        return out;
      });
      both([&](const RowKernels& k) {
        Floats out = x;
        k.add(n, out.data(), y.data());
        return out;
      });
      both([&](const RowKernels& k) {
        Floats out = x;
        k.softmax(n, out.data());
        return out;
      });
      both([&](const RowKernels& k) {
        Bf16s out(size);
        k.narrow(n, x.data(), out.data());
        return out;
      });
      if (n == 0) continue;
      both([&](const RowKernels& k) {
        Bf16s out(size);
        k.rms_norm(n, 1e-6F, x.data(), w.data(), out.data());
        return out;
      });
      if (n % 2 != 0) continue;
      both([&](const RowKernels& k) {
        Floats out(size);
        k.norm_rope({n, 1e-6F, w.data(), y.data(), y.data() + n / 2}, x.data(), out.data());
        return out;
      });
    }
  }
}

TEST_F(RowKernelsTest, WidenAndNarrowAreTheConversionsOfQuant) {
  Floats all;  // every bf16, and every kind of rounding above it, infinities and NaN included
  for (uint32_t high = 0; high < 65536; ++high) {
    for (uint32_t low : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      all.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  for (Isa isa : isas()) {
    Bf16s out(all.size());
    row_kernels(isa).narrow(static_cast<int64_t>(all.size()), all.data(), out.data());
    Floats back(all.size());
    row_kernels(isa).widen(static_cast<int64_t>(all.size()), out.data(), back.data());
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(out[i].bits, quant::to_bf16(all[i]).bits) << name(isa) << " " << all[i];
      ASSERT_EQ(std::bit_cast<uint32_t>(back[i]), uint32_t{out[i].bits} << 16) << name(isa);
    }
  }
}

TEST_F(RowKernelsTest, ExpIsWithinOneUnitInTheLastPlace) {
  Floats in;
  for (double x = -87.33654; x < 88.7228; x += 1.0 / 3001) in.push_back(static_cast<float>(x));
  for (double x = -1e-3; x < 1e-3; x += 1e-6) in.push_back(static_cast<float>(x));
  Floats out(in.size());
  row_kernels(best_isa()).exp(static_cast<int64_t>(in.size()), in.data(), out.data());
  double worst = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const double expected = std::exp(static_cast<double>(in[i]));
    const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
    worst = std::max(worst, std::abs(out[i] - expected) / ulp);
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, 1.1) << "what simd_math.h promises";
}

TEST_F(RowKernelsTest, ExpAtItsEnds) {
  const Floats in{0.0F,   -0.0F, -kInfinity, kInfinity, -87.4F,
                  -1e30F, 88.8F, 1e30F,      88.72283F, -87.33654F};
  for (Isa isa : isas()) {
    Floats out(in.size());
    row_kernels(isa).exp(static_cast<int64_t>(in.size()), in.data(), out.data());
    EXPECT_EQ(out[0], 1.0F);
    EXPECT_EQ(out[1], 1.0F);
    for (size_t i : {2, 4, 5}) EXPECT_EQ(out[i], 0.0F) << in[i];
    for (size_t i : {3, 6, 7}) EXPECT_EQ(out[i], kInfinity) << in[i];
    EXPECT_NEAR(out[8] / std::exp(static_cast<double>(in[8])), 1.0, 1e-6);
    EXPECT_NEAR(out[9] / std::exp(static_cast<double>(in[9])), 1.0, 1e-6);
  }
  float nan = std::numeric_limits<float>::quiet_NaN();
  generic_.exp(1, &nan, &nan);
  EXPECT_TRUE(std::isnan(nan));
}

TEST_F(RowKernelsTest, SiluMulIsTheRoundedProduct) {
  const Floats gate = floats(4096, -95, 95), up = floats(4096);
  Bf16s out(gate.size());
  row_kernels(best_isa()).silu_mul(4096, gate.data(), up.data(), out.data());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double z = gate[i], expected = z / (1 + std::exp(-z)) * up[i];
    // bf16 rounds by 2^-8 at most; four f32 steps and exp come before it. Below 1e-36 denormals are
    // zero.
    EXPECT_NEAR(quant::to_float(out[i]), expected, std::abs(expected) * (0x1p-8 + 0x1p-20) + 1e-36)
        << z;
  }
}

TEST_F(RowKernelsTest, QuantizeFollowsTheRuleOfPublishedCheckpoints) {
  const auto expect = [&](const Bf16s& x) {
    const auto k = static_cast<int64_t>(x.size());
    const size_t groups = (x.size() + 127) / 128;
    for (Isa isa : isas()) {
      Bf16s codes(x.size());
      Floats scales(groups);
      row_kernels(isa).quantize(k, x.data(), codes.data(), scales.data());
      for (size_t g = 0; g < groups; ++g) {
        const size_t end = std::min(x.size(), g * 128 + 128);
        float most = 0;
        for (size_t i = g * 128; i < end; ++i)
          most = std::max(most, std::fabs(quant::to_float(x[i])));
        const float scale = std::max(most, 1e-10F) / 448.0F;
        ASSERT_EQ(scales[g], scale) << name(isa);
        for (size_t i = g * 128; i < end; ++i) {
          const float code = quant::to_float(quant::to_e4m3(quant::to_float(x[i]) / scale));
          ASSERT_EQ(codes[i].bits, quant::to_bf16(code).bits)
              << name(isa) << " " << quant::to_float(x[i]) << "/" << scale;
        }
      }
    }
  };
  Bf16s finite;  // every finite bf16, so groups of every magnitude, down to zero
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7F80) != 0x7F80) finite.push_back({static_cast<uint16_t>(bits)});
  }
  expect(finite);
  for (float most :
       {448.0F, 447.0F, 3.0F, 1e-3F, 0x1p-100F}) {  // every bf16 as a fraction of one maximum
    Bf16s x;
    for (size_t i = 0; i < finite.size(); ++i) {
      const bool fits = std::fabs(quant::to_float(finite[i])) <= most;
      x.push_back(i % 128 == 0 || !fits ? quant::to_bf16(most) : finite[i]);
    }
    expect(x);
  }
  for (int64_t k : lengths_) expect(bf16s(k));
  expect(Bf16s(200));
}

TEST_F(RowKernelsTest, QuantizeKeepsNan) {
  for (Isa isa : isas()) {
    for (int nan : {0x7FC0, 0x7FFF, 0xFFFF, 0x7F81}) {
      const Bf16 x{static_cast<uint16_t>(nan)};
      Bf16 code;
      float scale = 0;
      row_kernels(isa).quantize(1, &x, &code, &scale);
      EXPECT_TRUE(std::isnan(quant::to_float(code))) << name(isa) << " " << nan;
    }
  }
}

TEST_F(RowKernelsTest, RmsNormIsTheFormula) {
  for (int64_t n : lengths_) {
    if (n == 0) continue;
    const Floats x = floats(n, -9, 9), w = floats(n);
    Bf16s out(x.size());
    row_kernels(best_isa()).rms_norm(n, 1e-5F, x.data(), w.data(), out.data());
    double squares = 0;
    for (float value : x) squares += static_cast<double>(value) * value;
    const double scale =
        1 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(1e-5F));
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected =
          w[i] * (x[i] * scale);  // (n/16 + 4) additions in f32, far below the bf16 rounding
      EXPECT_NEAR(quant::to_float(out[i]), expected, std::abs(expected) * (0x1p-8 + 0x1p-17)) << n;
    }
  }
}

TEST_F(RowKernelsTest, NormRopeIsNormThenHalfFormRotation) {
  for (int64_t dim : {2, 16, 32, 64, 96, 128}) {
    const Floats x = floats(dim), w = floats(dim), cos = floats(dim / 2, -1, 1),
                 sin = floats(dim / 2, -1, 1);
    Floats out(x.size());
    row_kernels(best_isa())
        .norm_rope({dim, 1e-6F, w.data(), cos.data(), sin.data()}, x.data(), out.data());
    double squares = 0;
    for (float value : x) squares += static_cast<double>(value) * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(dim) + 1e-6);
    const size_t half = x.size() / 2;
    for (size_t i = 0; i < half; ++i) {
      const double a = w[i] * x[i] * scale, b = w[i + half] * x[i + half] * scale;
      const double tolerance = 0x1p-20 * (std::abs(a) + std::abs(b));  // 16 roundings of 2^-24
      EXPECT_NEAR(out[i], a * cos[i] - b * sin[i], tolerance) << dim;
      EXPECT_NEAR(out[i + half], b * cos[i] + a * sin[i], tolerance) << dim;
    }
  }
}

TEST_F(RowKernelsTest, RouterLogitsAreDotProductsWhateverTheBlock) {
  for (int64_t hidden : {16, 64, 100, 256}) {
    for (int64_t experts : {1, 2, 3, 16, 17}) {
      const int64_t tokens = 5;
      const Floats x = floats(tokens * hidden), gate = floats(experts * hidden);
      Floats all(static_cast<size_t>(tokens * experts));
      generic_.router_logits({tokens, experts, hidden, gate.data()}, x.data(), all.data());
      for (Isa isa : isas()) {
        for (int64_t count : {1, 2, 3, 5}) {
          Floats some(static_cast<size_t>(count * experts));
          row_kernels(isa).router_logits({count, experts, hidden, gate.data()}, x.data(),
                                         some.data());
          EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()))
              << name(isa) << " " << count;
        }
      }
      for (int64_t t = 0; t < tokens; ++t) {
        for (int64_t e = 0; e < experts; ++e) {
          double expected = 0, size = 0;
          for (int64_t i = 0; i < hidden; ++i) {
            const double product = static_cast<double>(x[t * hidden + i]) * gate[e * hidden + i];
            expected += product;
            size += std::abs(product);
          }
          const double steps =
              static_cast<double>(hidden) / 16 + 5;  // additions that a product passes through
          EXPECT_NEAR(all[t * experts + e], expected, size * steps * 0x1p-24);
        }
      }
    }
  }
}

TEST_F(RowKernelsTest, SoftmaxSumsToOneAndKeepsRatios) {
  Floats p = floats(300, -20, 20);
  const Floats x = p;
  row_kernels(best_isa()).softmax(300, p.data());
  double total = 0;
  for (float value : x) total += std::exp(static_cast<double>(value));
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(static_cast<double>(x[i])) / total;
    EXPECT_NEAR(p[i], expected,
                expected * (40 * 0x1p-24 + 0x1p-19));  // x - max rounds by 2^-20 at most
  }
}

TEST_F(RowKernelsTest, RotaryTableIsHalfAUnitFromTheCosineOfTheF32Angle) {
  Floats inv_freq;
  for (double base : {1e4, 1e6, 1e7}) {
    for (int i = 0; i < 64; ++i)
      inv_freq.push_back(static_cast<float>(std::pow(base, -2.0 * i / 128)));
  }
  Floats cos(inv_freq.size()), sin(inv_freq.size());
  double worst = 0;
  const auto error = [](float value, double expected) {
    return std::abs(value - expected) / std::ldexp(1.0, std::ilogb(expected) - 23);
  };
  for (int position = 1; position < 300000; position += 1 + position / 50) {
    rotary_table(static_cast<int64_t>(inv_freq.size()), static_cast<float>(position),
                 inv_freq.data(), cos.data(), sin.data());
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      const float angle = static_cast<float>(position) * inv_freq[i];
      worst = std::max({worst, error(cos[i], std::cos(static_cast<double>(angle))),
                        error(sin[i], std::sin(static_cast<double>(angle)))});
    }
  }
  EXPECT_LE(worst, 0.51);
  rotary_table(1, 0.0F, inv_freq.data(), cos.data(), sin.data());
  EXPECT_EQ(cos[0], 1.0F);
  EXPECT_EQ(sin[0], 0.0F);
}

}  // namespace
}  // namespace hocket::kernels
