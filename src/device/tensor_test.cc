#include "device/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/arena.h"
#include "device/stream.h"

namespace hocket::device {
namespace {

TEST(Tensor, CountsElementsAndBytes) {
  std::array<quant::Bf16, 24> memory{};
  const TensorView view(memory.data(), DType::bf16, {2, 3, 4});
  EXPECT_EQ(view.rows(), 2);
  EXPECT_EQ(view.row_elements(), 12);
  EXPECT_EQ(view.elements(), 24);
  EXPECT_EQ(view.bytes(), 48);
  EXPECT_EQ(view.str(), "[2, 3, 4] bf16");
  EXPECT_TRUE(TensorView().empty());
  EXPECT_TRUE(TensorView(nullptr, DType::f32, {0, 8}).empty());
  EXPECT_EQ(TensorView().rows(), 0);
  EXPECT_THROW(TensorView(nullptr, DType::f32, {-1}), ShapeError);
}

TEST(Tensor, SlicesRows) {
  std::array<float, 12> memory{};
  const TensorView view(memory.data(), DType::f32, {4, 3});
  EXPECT_EQ(view.slice(1, 3).as<float>(), memory.data() + 3);
  EXPECT_EQ(view.slice(1, 3).rows(), 2);
  EXPECT_EQ(view.slice(4, 4).rows(), 0);
  EXPECT_THROW(view.slice(-1, 2), ShapeError);
  EXPECT_THROW(view.slice(3, 2), ShapeError);
  EXPECT_THROW(view.slice(0, 5), ShapeError);
  EXPECT_EQ(TensorView(nullptr, DType::f32, {2, 0}).slice(1, 2).data, nullptr);
}

TEST(Tensor, RefusesTheWrongType) {
  float value = 0;
  const TensorView view(&value, DType::f32, {1});
  EXPECT_EQ(view.as<float>(), &value);
  EXPECT_THROW(view.as<int32_t>(), ShapeError);
}

TEST(Tensor, RequireComparesTypeAndExtents) {
  const TensorView view(nullptr, DType::f32, {0, 8});
  EXPECT_NO_THROW(require(view, DType::f32, {0, 8}, "x"));
  EXPECT_NO_THROW(require(view, DType::f32, {0, -1}, "x"));
  EXPECT_THROW(require(view, DType::bf16, {0, 8}, "x"), ShapeError);
  EXPECT_THROW(require(view, DType::f32, {8}, "x"), ShapeError);
  try {
    require(view, DType::i32, {-1, 4}, "block_table");
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "block_table: [0, 8] f32 where [any, 4] i32 is expected");
  }
}

TEST(Tensor, RequireChecksTheAxesBehindAnyExtent) {
  const TensorView view(nullptr, DType::f32, {0, 8});
  EXPECT_NO_THROW(require(view, DType::f32, {-1, 8}, "x"));
  EXPECT_THROW(require(view, DType::f32, {-1, 0}, "x"), ShapeError);
}

TEST(Arena, HandsOutAlignedTensorsUntilItIsFull) {
  Arena arena(256);
  const TensorView a = arena.make(DType::bf16, {3, 5}), b = arena.like(a),
                   none = arena.make(DType::f32, {0, 4});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data) % 64, 0u);
  EXPECT_EQ(b.data - a.data, 64);
  EXPECT_EQ(b.str(), a.str());
  EXPECT_EQ(none.elements(), 0);
  EXPECT_EQ(arena.used(), 128);
  EXPECT_NO_THROW(arena.make(DType::u8, {128}));
  try {
    arena.make(DType::u8, {1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::capacity);
  }
  arena.reset();
  EXPECT_EQ(arena.used(), 0);
  EXPECT_EQ(arena.high_water(), 256);
  EXPECT_EQ(arena.make(DType::u8, {1}).data, a.data);
}

TEST(Label, NamesALaunchInsideAndOutsideALayer) {
  EXPECT_EQ((Label{"experts", 1, 12}.str()), "u1/L12/experts");
  EXPECT_EQ((Label{"logits", 0, -1}.str()), "u0/logits");
}

}  // namespace
}  // namespace hocket::device
