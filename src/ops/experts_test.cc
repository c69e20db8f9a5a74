#include "kernels/cpu/row_kernels.h"
#include "ops/gemm_testing.h"

namespace hocket::ops::testing {
namespace {

/// Weights of all experts, row-major and packed.
struct Model {
  std::vector<Matrix> gate_up, down;
  std::vector<Packed> packed;
  std::vector<PackedWeight> packed_gate_up, packed_down;

  Model(Random& random, WeightFormat format, int64_t experts, int64_t hidden, int64_t intermediate) {
    const auto make = [&](int64_t n, int64_t k) {
      return format == WeightFormat::bf16 ? random.activations(n, k) : random.fp8_weight(n, k);
    };
    for (int64_t e = 0; e < experts; ++e) {
      gate_up.push_back(make(2 * intermediate, hidden));
      down.push_back(make(hidden, intermediate));
      packed.push_back(pack_one(gate_up.back()));
      packed_gate_up.push_back(packed.back().weight);
      packed.push_back(pack_one(down.back()));
      packed_down.push_back(packed.back().weight);
    }
  }
};

/// One row through one expert, from the oracle of products and the row kernels.
std::vector<Bf16> expected_row(const Matrix& x, int64_t m, const Matrix& gate_up, const Matrix& down) {
  const auto& rows = kernels::row_kernels(Isa::generic);
  const int64_t intermediate = down.k;
  std::vector<float> product;
  for (int64_t n = 0; n < gate_up.rows; ++n) product.push_back(oracle(x, m, gate_up, n));
  Matrix inner{1, intermediate, std::vector<Bf16>(static_cast<size_t>(intermediate)), {}, {}};
  rows.silu_mul(intermediate, product.data(), product.data() + intermediate, inner.values.data());
  if (!down.codes.empty()) {
    std::vector<Bf16> wide = inner.values;
    inner.scales.resize(static_cast<size_t>(groups_of(intermediate)));
    rows.quantize(intermediate, wide.data(), inner.values.data(), inner.scales.data());
  }
  std::vector<Bf16> out;
  for (int64_t n = 0; n < down.rows; ++n) out.push_back(quant::to_bf16(oracle(inner, 0, down, n)));
  return out;
}

struct Case {
  WeightFormat format;
  int64_t hidden, intermediate;
  std::vector<int32_t> counts;
};

std::vector<Bf16> run(Isa isa, int threads, Model& model, Matrix& x, const Case& c, std::vector<int32_t> offsets) {
  std::vector<int32_t> counts = c.counts;
  const auto num = static_cast<int64_t>(counts.size());
  const int64_t bytes = experts_scratch_bytes(x.rows, c.intermediate, c.format);
  device::Buffer scratch(bytes);
  std::vector<Bf16> y(static_cast<size_t>(x.rows * c.hidden), Bf16{0x7FFF});
  Now now(isa, threads);
  experts(now.lane(), TensorView(y.data(), device::DType::bf16, {x.rows, c.hidden}), x.operand(),
          TensorView(counts.data(), device::DType::i32, {num}), TensorView(offsets.data(), device::DType::i32, {num + 1}),
          {model.packed_gate_up, model.packed_down}, TensorView(scratch.data(), device::DType::u8, {bytes}));
  EXPECT_EQ(now.launches, 1);
  EXPECT_EQ(now.last.str(), "u0/L3/experts");
  return y;
}

void check(Isa isa, const Case& c) {
  Random random(static_cast<uint32_t>(c.hidden));
  Model model(random, c.format, static_cast<int64_t>(c.counts.size()), c.hidden, c.intermediate);
  std::vector<int32_t> offsets{0};
  for (int32_t count : c.counts) offsets.push_back(offsets.back() + count + 2);  // rows may lie apart
  const int64_t capacity = offsets.back() + 3;
  Matrix x = c.format == WeightFormat::bf16 ? random.activations(capacity, c.hidden) : random.quantized(capacity, c.hidden);
  for (int threads : {1, 2, 3}) {
    const std::vector<Bf16> y = run(isa, threads, model, x, c, offsets);
    for (size_t e = 0; e < c.counts.size(); ++e) {
      for (int64_t row = offsets[e]; row < offsets[e + 1]; ++row) {
        const bool present = row < offsets[e] + c.counts[e];
        const auto expected = present ? expected_row(x, row, model.gate_up[e], model.down[e])
                                      : std::vector<Bf16>(static_cast<size_t>(c.hidden), Bf16{0x7FFF});
        for (int64_t n = 0; n < c.hidden; ++n) {
          ASSERT_EQ(y[static_cast<size_t>(row * c.hidden + n)].bits, expected[static_cast<size_t>(n)].bits)
              << "expert " << e << ", row " << row << ", column " << n << ", threads " << threads;
        }
      }
    }
  }
}

class Experts : public EachIsa {};
INSTANTIATE_TEST_SUITE_P(, Experts, ::testing::Values(Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16), isa_name);

TEST_P(Experts, Bf16IsTheCompositionOfItsParts) {
  check(GetParam(), {WeightFormat::bf16, 96, 48, {3, 0, 1, 0, 0, 17, 2}});
  check(GetParam(), {WeightFormat::bf16, 40, 208, {0, 0, 101}});  // all to one; hidden ragged, two blocks of rows
}

TEST_P(Experts, Fp8IsTheCompositionOfItsPartsWithTheInnerQuantisation) {
  check(GetParam(), {WeightFormat::fp8_block, 192, 128, {1, 1, 0, 1, 1}});
  check(GetParam(), {WeightFormat::fp8_block, 200, 256, {9, 0, 30}});  // hidden ragged
}

TEST_P(Experts, NobodyGotARow) {
  const Case c{WeightFormat::bf16, 32, 16, {0, 0}};
  check(GetParam(), c);
}

TEST(ExpertsOp, NoCapacityNoLaunch) {
  Random random(2);
  Model model(random, WeightFormat::bf16, 1, 32, 16);
  Matrix x{0, 32, {}, {}, {}};
  int32_t counts[1] = {0}, offsets[2] = {0, 0};
  Now now(Isa::generic);
  experts(now.lane(), TensorView(nullptr, device::DType::bf16, {0, 32}), x.operand(),
          TensorView(counts, device::DType::i32, {1}), TensorView(offsets, device::DType::i32, {2}),
          {model.packed_gate_up, model.packed_down}, {});
  EXPECT_EQ(now.launches, 0);
}

TEST(ExpertsOp, RefusesFp8WhoseUpRowsStartInsideAScaleBlock) {
  Random random(2);
  Model model(random, WeightFormat::fp8_block, 1, 32, 48);
  Matrix x = random.quantized(4, 32);
  EXPECT_THROW(run(Isa::generic, 1, model, x, {WeightFormat::fp8_block, 32, 48, {3}}, {0, 3}), ShapeError);
}

TEST(ExpertsOp, RefusesRowsBeyondTheCapacityAndTooLittleScratch) {
  Random random(2);
  Model model(random, WeightFormat::bf16, 2, 32, 16);
  Matrix x = random.activations(4, 32);
  EXPECT_THROW(run(Isa::generic, 1, model, x, {WeightFormat::bf16, 32, 16, {3, 2}}, {0, 3, 5}), InvariantError);
  int32_t counts[2] = {1, 1}, offsets[3] = {0, 1, 2};
  std::vector<Bf16> y(4 * 32);
  std::vector<uint8_t> scratch(8);
  Now now(Isa::generic);
  EXPECT_THROW(experts(now.lane(), TensorView(y.data(), device::DType::bf16, {4, 32}), x.operand(),
                       TensorView(counts, device::DType::i32, {2}), TensorView(offsets, device::DType::i32, {3}),
                       {model.packed_gate_up, model.packed_down}, TensorView(scratch.data(), device::DType::u8, {8})),
               ShapeError);
}

}  // namespace
}  // namespace hocket::ops::testing
