#include "comm/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "quant/fp8.h"

namespace hocket::comm {
namespace {

std::vector<const RowOps*> all_ops() {
  std::vector<const RowOps*> ops{&kRowOpsGeneric};
  if (best_isa() != Isa::generic) ops.push_back(&row_ops(best_isa()));
  return ops;
}

TEST(Quantise, EveryBf16ValueRoundsAsTheScalarCode) {
  for (const RowOps* ops : all_ops()) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      // Beside a 448 the scale is 1, so that the code of a value is its own rounding, saturation and NaN included.
      std::vector<quant::Bf16> x(16);
      x[0] = quant::to_bf16(448.0F);
      x[5].bits = static_cast<uint16_t>(bits);
      const float value = quant::to_float(x[5]);
      if (std::fabs(value) < 0x1.0p-120F && value != 0) continue;  // devices may flush denormals; all give code 0
      uint8_t codes[16];
      float scale;
      ops->quantise(codes, &scale, x.data(), 16);
      const float expected = std::isfinite(value) ? std::max(448.0F, std::fabs(value)) / 448.0F : std::fabs(value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(scale));
        EXPECT_TRUE(quant::is_nan({codes[5]}));
        continue;
      }
      EXPECT_EQ(scale, expected);
      EXPECT_EQ(codes[5], quant::to_e4m3(value / scale).bits) << value;
    }
  }
}

TEST(Quantise, EachBlockHasItsScale) {
  std::mt19937 random(7);
  for (const RowOps* ops : all_ops()) {
    for (const int64_t n : {16, 128, 144, 256, 272}) {
      std::vector<quant::Bf16> x(static_cast<size_t>(n));
      for (auto& value : x) value = quant::to_bf16(std::ldexp(static_cast<float>(random()) - 2e9F, static_cast<int>(random() % 60) - 60));
      for (size_t i = 0; i < 16; ++i) x[i].bits = 0;  // a block of zeros when n is 16
      std::vector<uint8_t> codes(x.size());
      std::vector<float> scales(static_cast<size_t>((n + 127) / 128));
      ops->quantise(codes.data(), scales.data(), x.data(), n);
      for (size_t block = 0; block < scales.size(); ++block) {
        float amax = 0;
        const size_t end = std::min(x.size(), (block + 1) * 128);
        for (size_t i = block * 128; i < end; ++i) amax = std::max(amax, std::fabs(quant::to_float(x[i])));
        EXPECT_EQ(scales[block], std::max(amax, 1e-10F) / 448.0F);
        for (size_t i = block * 128; i < end; ++i) {
          EXPECT_EQ(codes[i], quant::to_e4m3(quant::to_float(x[i]) / scales[block]).bits);
        }
      }
    }
  }
}

TEST(Widen, IsExactForEveryCode) {
  std::vector<uint8_t> codes(256);
  for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
  for (const RowOps* ops : all_ops()) {
    std::vector<quant::Bf16> values(256);
    ops->widen(values.data(), codes.data(), 256);
    for (size_t i = 0; i < 256; ++i) {
      const float expected = quant::to_float(quant::E4m3{codes[i]});
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(quant::to_float(values[i])));
      } else {
        EXPECT_EQ(values[i].bits, quant::to_bf16(expected).bits) << i;
      }
    }
  }
}

TEST(WeightedSum, IsOneChainOfFusedMultiplyAdds) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const int rows : {0, 1, 2, 7, 32}) {
    for (const int64_t n : {16, 48, 256}) {
      std::vector<std::vector<quant::Bf16>> y(static_cast<size_t>(rows));
      std::vector<const quant::Bf16*> at;
      std::vector<float> weights;
      for (auto& row : y) {
        for (int64_t c = 0; c < n; ++c) row.push_back(quant::to_bf16(normal(random)));
        at.push_back(row.data());
        weights.push_back(normal(random));
      }
      for (const RowOps* ops : all_ops()) {
        std::vector<float> out(static_cast<size_t>(n), NAN);
        ops->weighted_sum(out.data(), at.data(), weights.data(), rows, n);
        for (size_t c = 0; c < out.size(); ++c) {
          float sum = 0;
          for (size_t r = 0; r < y.size(); ++r) sum = std::fma(weights[r], quant::to_float(y[r][c]), sum);
          EXPECT_EQ(std::bit_cast<uint32_t>(out[c]), std::bit_cast<uint32_t>(sum));
        }
      }
    }
  }
}

}  // namespace
}  // namespace hocket::comm
