#include <cstring>

#include "ops/gemm_testing.h"

namespace hocket::ops::testing {
namespace {

TEST(Pack, PutsPairsOfSixteenRowsBesideEachOther) {
  Random random(3);
  Matrix w = random.activations(20, 5);  // 2 tiles of 3 pairs, both ragged
  const Packed packed = pack_one(w);
  ASSERT_EQ(packed_bytes(20, 5, WeightFormat::bf16), 2 * 3 * 16 * 2 * 2);
  const auto* data = reinterpret_cast<const uint16_t*>(packed.weight.data.data);
  for (int64_t n = 0; n < 32; ++n) {
    for (int64_t k = 0; k < 6; ++k) {
      const uint16_t expected = n < 20 && k < 5 ? w.values[static_cast<size_t>(n * 5 + k)].bits : uint16_t{0};
      EXPECT_EQ(data[(n / 16 * 3 + k / 2) * 32 + n % 16 * 2 + k % 2], expected) << n << ", " << k;
    }
  }
}

TEST(Pack, Fp8IsTheSameWithBytes) {
  Random random(3);
  Matrix w = random.fp8_weight(20, 5);
  const Packed packed = pack_one(w);
  ASSERT_EQ(packed_bytes(20, 5, WeightFormat::fp8_block), 2 * 3 * 16 * 2);
  const auto* data = reinterpret_cast<const uint8_t*>(packed.weight.data.data);
  for (int64_t n = 0; n < 32; ++n) {
    for (int64_t k = 0; k < 6; ++k) {
      const uint8_t expected = n < 20 && k < 5 ? w.codes[static_cast<size_t>(n * 5 + k)].bits : uint8_t{0};
      EXPECT_EQ(data[(n / 16 * 3 + k / 2) * 32 + n % 16 * 2 + k % 2], expected) << n << ", " << k;
    }
  }
}

TEST(Pack, PartsAreOneBelowTheOther) {
  Random random(4);
  Matrix parts[3] = {random.fp8_weight(256, 200), random.fp8_weight(128, 200), random.fp8_weight(40, 200)};
  Matrix whole{424, 200, {}, {}, {}};
  for (const Matrix& part : parts) {
    whole.codes.insert(whole.codes.end(), part.codes.begin(), part.codes.end());
    whole.scales.insert(whole.scales.end(), part.scales.begin(), part.scales.end());
  }
  const Packed apart = pack_all(parts), together = pack_one(whole);
  EXPECT_EQ(apart.weight.n, 424);
  EXPECT_EQ(apart.weight.k, 200);
  EXPECT_EQ(apart.weight.format, WeightFormat::fp8_block);
  EXPECT_EQ(apart.scales, together.scales);
  EXPECT_EQ(std::memcmp(apart.memory.data(), together.memory.data(), static_cast<size_t>(apart.memory.size())), 0);
}

TEST(Pack, ReadsUnalignedMemory) {
  Random random(6);
  Matrix w = random.fp8_weight(32, 130);
  std::vector<std::byte> file(32 * 130 + 2 * 4 + 2);
  std::memcpy(file.data() + 1, w.codes.data(), w.codes.size());
  std::memcpy(file.data() + 2 + w.codes.size(), w.scales.data(), 8);
  const WeightPart part{TensorView(file.data() + 1, device::DType::e4m3, {32, 130}),
                        TensorView(file.data() + 2 + w.codes.size(), device::DType::f32, {1, 2})};
  const Packed expected = pack_one(w);
  Packed packed{device::Buffer(expected.memory.size()), std::vector<float>(2), {}};
  packed.weight = pack(std::span(&part, 1), packed.memory.data(), packed.scales.data());
  EXPECT_EQ(packed.scales, expected.scales);
  EXPECT_EQ(std::memcmp(packed.memory.data(), expected.memory.data(), static_cast<size_t>(packed.memory.size())), 0);
}

TEST(Pack, RefusesNaNAndNamesThePlace) {
  Random random(7);
  for (uint8_t nan : {uint8_t{0x7F}, uint8_t{0xFF}}) {
    Matrix w = random.fp8_weight(20, 30);
    w.codes[17 * 30 + 5].bits = nan;
    try {
      pack_one(w);
      FAIL() << "accepted a NaN";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::bad_input);
      EXPECT_NE(std::string(error.what()).find("row 17, column 5"), std::string::npos) << error.what();
    }
  }
  Matrix w = random.fp8_weight(20, 300);
  w.scales[2] = std::bit_cast<float>(0x7F800000);
  EXPECT_THROW(pack_one(w), Error);
}

TEST(Pack, RefusesPartsThatDoNotFit) {
  Random random(8);
  Matrix ragged[2] = {random.activations(24, 32), random.activations(16, 32)};
  EXPECT_THROW(pack_all(ragged), ShapeError) << "the second part starts inside a tile";
  Matrix blocks[2] = {random.fp8_weight(64, 32), random.fp8_weight(64, 32)};
  EXPECT_THROW(pack_all(blocks), ShapeError) << "the second part starts inside a scale block";
  Matrix widths[2] = {random.activations(16, 32), random.activations(16, 30)};
  EXPECT_THROW(pack_all(widths), ShapeError);
  Matrix scaled = random.activations(16, 32);
  WeightPart part = scaled.part();
  float scale = 1;
  part.scales = TensorView(&scale, device::DType::f32, {1, 1});
  device::Buffer memory(packed_bytes(16, 32, WeightFormat::bf16));
  EXPECT_THROW(pack(std::span(&part, 1), memory.data(), nullptr), ShapeError);
}

}  // namespace
}  // namespace hocket::ops::testing
