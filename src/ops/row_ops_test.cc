#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <random>

#include "device/cpu/seeded.h"
#include "ops/ops.h"

namespace hocket::ops {
namespace {

using device::DType;
using device::cpu::SeededDevice;
using quant::Bf16;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// One stream of a seeded device, and tensors with owners.
class RowOpsTest : public ::testing::Test {
 protected:
  TensorView f32(std::initializer_list<int64_t> shape, float low = -3, float high = 3) {
    TensorView view(nullptr, DType::f32, shape);
    auto& values = floats_.emplace_back(static_cast<size_t>(view.elements()));
    for (float& value : values) value = std::uniform_real_distribution<float>(low, high)(random_);
    view.data = reinterpret_cast<std::byte*>(values.data());
    return view;
  }
  TensorView bf16(std::initializer_list<int64_t> shape) {
    TensorView view(nullptr, DType::bf16, shape);
    auto& values = bf16s_.emplace_back(static_cast<size_t>(view.elements()));
    for (Bf16& value : values)
      value = quant::to_bf16(std::uniform_real_distribution<float>(-3, 3)(random_));
    view.data = reinterpret_cast<std::byte*>(values.data());
    return view;
  }
  TensorView i32(const std::vector<int32_t>& values) {
    auto& own = ints_.emplace_back(values);
    return {own.data(), DType::i32, {static_cast<int64_t>(own.size())}};
  }
  Lane lane() { return {*stream_}; }
  void finish() {
    try {
      stream_->synchronize();
    } catch (const Error&) {
      stream_->clear_failure();
      throw;
    }
  }

 private:
  std::mt19937 random_{3};
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<Bf16>> bf16s_;
  std::deque<std::vector<int32_t>> ints_;
  SeededDevice device_{11};
  std::unique_ptr<device::Stream> stream_ = device_.make_stream("compute");
};

TEST_F(RowOpsTest, EmbedCopiesTheRowOfEachId) {
  const TensorView table = bf16({7, 33}), out = f32({4, 33}), ids = i32({6, 0, 3, 6});
  embed(lane(), out, table, ids);
  finish();
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t h = 0; h < 33; ++h) {
      EXPECT_EQ(out.as<float>()[t * 33 + h],
                quant::to_float(table.as<Bf16>()[ids.as<int32_t>()[t] * 33 + h]));
    }
  }
  for (int32_t bad : {7, -1}) {
    embed(lane(), f32({1, 33}), table, i32({bad}));
    EXPECT_THROW(finish(), Error);
  }
}

TEST_F(RowOpsTest, GatherRowsCopiesRows) {
  const TensorView x = f32({5, 20}), out = f32({3, 20}), rows = i32({4, 0, 4});
  gather_rows(lane(), out, x, rows);
  finish();
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t h = 0; h < 20; ++h) {
      EXPECT_EQ(out.as<float>()[i * 20 + h], x.as<float>()[rows.as<int32_t>()[i] * 20 + h]);
    }
  }
  gather_rows(lane(), f32({1, 20}), x, i32({5}));
  EXPECT_THROW(finish(), Error);
}

TEST_F(RowOpsTest, AddAddsInPlace) {
  const TensorView x = f32({300, 101}), y = f32({300, 101});
  const std::vector<float> before(x.as<float>(), x.as<float>() + x.elements());
  add(lane(), x, y);
  finish();
  for (int64_t i = 0; i < x.elements(); ++i) {
    ASSERT_EQ(x.as<float>()[i], before[static_cast<size_t>(i)] + y.as<float>()[i]);
  }
}

TEST_F(RowOpsTest, EveryRowIsComputedOnceAsIfAlone) {
  // 300 rows are many items, each row again alone: one bit pattern. Checked against formulas in the
  // kernels' tests.
  const int64_t rows = 300, width = 200;
  const TensorView x = f32({rows, width}), w = f32({width}), gate_up = f32({rows, 2 * width}),
                   codes_in = bf16({rows, width});
  const TensorView normed = bf16({rows, width}), active = bf16({rows, width}),
                   codes = bf16({rows, width});
  const TensorView scales = f32({rows, 2});
  rms_norm(lane(), normed, x, w, 1e-6F);
  silu_mul(lane(), active, gate_up);
  quantize(lane(), {codes, scales}, codes_in);
  finish();
  const TensorView one = bf16({1, width}), one_scale = f32({1, 2});
  const auto expect_row = [&](const TensorView& all, int64_t row, const TensorView& alone) {
    const TensorView part = all.slice(row, row + 1);
    ASSERT_EQ(std::memcmp(part.data, alone.data, static_cast<size_t>(alone.bytes())), 0) << row;
  };
  for (int64_t r = 0; r < rows; ++r) {
    rms_norm(lane(), one, x.slice(r, r + 1), w, 1e-6F);
    finish();
    expect_row(normed, r, one);
    silu_mul(lane(), one, gate_up.slice(r, r + 1));
    finish();
    expect_row(active, r, one);
    quantize(lane(), {one, one_scale}, codes_in.slice(r, r + 1));
    finish();
    expect_row(codes, r, one);
    expect_row(scales, r, one_scale);
  }
}

TEST_F(RowOpsTest, SiluMulTakesTheGateFirst) {
  const TensorView gate_up = f32({1, 2}), out = bf16({1, 1});
  gate_up.as<float>()[0] = 100;
  gate_up.as<float>()[1] = -0.5F;
  silu_mul(lane(), out, gate_up);
  finish();
  EXPECT_EQ(quant::to_float(out.as<Bf16>()[0]), -50.0F);
}

TEST_F(RowOpsTest, RowsOutsideTheViewStayAsTheyAre) {
  const TensorView out = f32({3, 16});
  std::fill_n(out.as<float>(), 48, kNan);
  embed(lane(), out.slice(1, 2), bf16({2, 16}), i32({1}));
  finish();
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_TRUE(std::isnan(out.as<float>()[i]));
    EXPECT_FALSE(std::isnan(out.as<float>()[16 + i]));
    EXPECT_TRUE(std::isnan(out.as<float>()[32 + i]));
  }
}

TEST_F(RowOpsTest, ZeroRowsAreANormalInput) {
  embed(lane(), f32({0, 8}), bf16({4, 8}), i32({}));
  rms_norm(lane(), bf16({0, 8}), f32({0, 8}), f32({8}), 1e-6F);
  quantize(lane(), {bf16({0, 8}), f32({0, 1})}, bf16({0, 8}));
  silu_mul(lane(), bf16({0, 8}), f32({0, 16}));
  gather_rows(lane(), f32({0, 8}), f32({0, 8}), i32({}));
  add(lane(), f32({0, 8}), f32({0, 8}));
  EXPECT_NO_THROW(finish());
}

TEST_F(RowOpsTest, WrongShapesAreRefusedAtOnce) {
  EXPECT_THROW(embed(lane(), f32({2, 9}), bf16({4, 8}), i32({1, 2})), ShapeError);
  EXPECT_THROW(rms_norm(lane(), bf16({2, 8}), f32({2, 8}), f32({9}), 1e-6F), ShapeError);
  EXPECT_THROW(rms_norm(lane(), f32({2, 8}), f32({2, 8}), f32({8}), 1e-6F), ShapeError);
  EXPECT_THROW(quantize(lane(), {bf16({2, 129}), f32({2, 1})}, bf16({2, 129})), ShapeError);
  EXPECT_THROW(silu_mul(lane(), bf16({2, 8}), f32({2, 8})), ShapeError);
  EXPECT_THROW(gather_rows(lane(), f32({3, 8}), f32({5, 8}), i32({1, 2})), ShapeError);
  EXPECT_THROW(add(lane(), f32({2, 8}), f32({3, 8})), ShapeError);
}

}  // namespace
}  // namespace hocket::ops
