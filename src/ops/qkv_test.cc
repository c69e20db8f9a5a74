#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "device/cpu/seeded.h"
#include "ops/ops.h"

namespace hocket::ops {
namespace {

using device::DType;
using quant::Bf16;

struct Layout {
  int heads = 4, kv_heads = 2, dim = 64;
  int64_t block_size = 16, blocks = 5;
  std::vector<int32_t> positions{0, 1, 130, 131, 4000, 131071};
  std::vector<int32_t> slots{64, 65, 15, 16, 0, 40};  // blocks of 16: 4, 4, 0, 1, 0, 2
};
struct Result {
  std::vector<float> q;
  std::vector<Bf16> k, v;
};

class QkvTest : public ::testing::Test {
 protected:
  void make(const Layout& layout) {
    layout_ = layout;
    std::mt19937 random(4);
    std::normal_distribution<float> normal(0, 2);
    const auto fill = [&](std::vector<float>& values, size_t count) {
      values.resize(count);
      for (float& value : values) value = normal(random);
    };
    fill(qkv_, layout.positions.size() * static_cast<size_t>(row_width()));
    fill(q_norm_, static_cast<size_t>(layout.dim));
    fill(k_norm_, static_cast<size_t>(layout.dim));
    inv_freq_.clear();
    for (int i = 0; i < layout.dim / 2; ++i) {
      inv_freq_.push_back(static_cast<float>(std::pow(1e6, -2.0 * i / layout.dim)));
    }
  }
  int64_t row_width() const { return (layout_.heads + 2 * layout_.kv_heads) * layout_.dim; }
  int64_t tokens() const { return static_cast<int64_t>(layout_.positions.size()); }

  /// The op on tokens [begin, end), over a cache of NaN.
  Result run(int64_t begin, int64_t end, Isa isa = best_isa()) {
    const KvShape shape{layout_.blocks, layout_.block_size, layout_.kv_heads, layout_.dim};
    const int64_t count = end - begin;
    Result out;
    out.q.assign(static_cast<size_t>(count * layout_.heads * layout_.dim), NAN);
    out.k.assign(static_cast<size_t>(shape.elements()), Bf16{0xFFFF});
    out.v = out.k;
    AttentionMeta meta;
    meta.positions = {layout_.positions.data() + begin, DType::i32, {count}};
    meta.slots = {layout_.slots.data() + begin, DType::i32, {count}};
    const KvCache cache{shape,
                        {out.k.data(), DType::bf16, {shape.elements()}},
                        {out.v.data(), DType::bf16, {shape.elements()}}};
    const QkvWeights weights{{q_norm_.data(), DType::f32, {layout_.dim}},
                             {k_norm_.data(), DType::f32, {layout_.dim}},
                             {inv_freq_.data(), DType::f32, {layout_.dim / 2}},
                             1e-6F};
    device::cpu::SeededDevice device(1, isa);
    const auto stream = device.make_stream("compute");
    qk_norm_rope_store({*stream}, {out.q.data(), DType::f32, {count, layout_.heads, layout_.dim}},
                       {qkv_.data() + begin * row_width(), DType::f32, {count, row_width()}},
                       weights, meta, cache);
    stream->synchronize();
    return out;
  }
  /// norm, then half-form RoPE, in f64 from the f32 angle.
  std::vector<double> expected(int64_t token, int head, const std::vector<float>& w) const {
    const float* x = qkv_.data() + token * row_width() + head * layout_.dim;
    double squares = 0;
    for (int d = 0; d < layout_.dim; ++d) squares += static_cast<double>(x[d]) * x[d];
    const double scale = 1 / std::sqrt(squares / layout_.dim + 1e-6);
    std::vector<double> out(static_cast<size_t>(layout_.dim));
    const int half = layout_.dim / 2;
    for (int i = 0; i < half; ++i) {
      const float angle = static_cast<float>(layout_.positions[token]) * inv_freq_[i];
      const double c = std::cos(static_cast<double>(angle)),
                   s = std::sin(static_cast<double>(angle));
      const double a = w[i] * (x[i] * scale), b = w[i + half] * (x[i + half] * scale);
      out[i] = a * c - b * s;
      out[i + half] = b * c + a * s;
    }
    return out;
  }
  /// 16 roundings of 2^-24; it is multiplied by the largest value that enters, below 60.
  static constexpr double kSteps = 0x1p-20;

  Layout layout_;
  std::vector<float> qkv_, q_norm_, k_norm_, inv_freq_;
};

TEST_F(QkvTest, QueriesAndKeysAreNormedAndRotatedAndStoredAtTheirSlots) {
  for (int dim : {16, 32, 64, 128}) {
    make({.dim = dim});
    const Result out = run(0, tokens());
    for (int64_t t = 0; t < tokens(); ++t) {
      for (int h = 0; h < layout_.heads; ++h) {
        const auto q = expected(t, h, q_norm_);
        for (int d = 0; d < dim; ++d) {
          ASSERT_NEAR(out.q[static_cast<size_t>((t * layout_.heads + h) * dim + d)], q[d],
                      60 * kSteps)
              << t << " " << h << " " << d;
        }
      }
      const int64_t block = layout_.slots[t] / 16, offset = layout_.slots[t] % 16;
      for (int h = 0; h < layout_.kv_heads; ++h) {
        const auto k = expected(t, layout_.heads + h, k_norm_);
        const float* v =
            qkv_.data() + t * row_width() + (layout_.heads + layout_.kv_heads + h) * dim;
        for (int d = 0; d < dim; ++d) {
          const auto k_at =
              static_cast<size_t>(((block * layout_.kv_heads + h) * dim + d) * 16 + offset);
          ASSERT_NEAR(quant::to_float(out.k[k_at]), k[d], std::abs(k[d]) * 0x1p-8 + 60 * kSteps)
              << t << " " << h << " " << d;
          const auto v_at =
              static_cast<size_t>(((block * layout_.kv_heads + h) * 16 + offset) * dim + d);
          ASSERT_EQ(out.v[v_at].bits, quant::to_bf16(v[d]).bits) << t << " " << h << " " << d;
        }
      }
    }
  }
}

TEST_F(QkvTest, NothingElseOfTheCacheIsTouched) {
  make({.block_size = 32, .blocks = 3});
  const Result out = run(0, tokens());
  const auto written = [&](const std::vector<Bf16>& cache) {
    return std::count_if(cache.begin(), cache.end(),
                         [](Bf16 value) { return value.bits != 0xFFFF; });
  };
  EXPECT_EQ(written(out.k), tokens() * layout_.kv_heads * layout_.dim);
  EXPECT_EQ(written(out.v), tokens() * layout_.kv_heads * layout_.dim);
}

TEST_F(QkvTest, ABlockOf32HoldsTwoGroupsOf16Keys) {
  make({.block_size = 32, .blocks = 3});
  const Result out = run(3, 4);  // slot 16: block 0, second group, first key
  make({.block_size = 16, .blocks = 5});
  const Result small = run(3, 4);  // slot 16: block 1, first key
  for (int h = 0; h < layout_.kv_heads; ++h) {
    for (int d = 0; d < layout_.dim; ++d) {
      EXPECT_EQ(out.k[static_cast<size_t>(((h * 2 + 1) * layout_.dim + d) * 16)].bits,
                small.k[static_cast<size_t>(((layout_.kv_heads + h) * layout_.dim + d) * 16)].bits);
      EXPECT_EQ(out.v[static_cast<size_t>((h * 32 + 16) * layout_.dim + d)].bits,
                small.v[static_cast<size_t>((layout_.kv_heads + h) * 16 * layout_.dim + d)].bits);
    }
  }
}

TEST_F(QkvTest, NeitherRowsNorInstructionSetChangeABit) {
  make({.dim = 96});
  const Result all = run(0, tokens());
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa > best_isa()) continue;
    const Result same = run(0, tokens(), isa);
    EXPECT_EQ(std::memcmp(same.q.data(), all.q.data(), all.q.size() * sizeof(float)), 0)
        << name(isa);
    EXPECT_EQ(std::memcmp(same.k.data(), all.k.data(), all.k.size() * sizeof(Bf16)), 0)
        << name(isa);
    for (int64_t t = 0; t < tokens(); ++t) {
      const Result one = run(t, t + 1, isa);
      const size_t row = one.q.size();
      EXPECT_EQ(std::memcmp(one.q.data(), all.q.data() + static_cast<size_t>(t) * row,
                            row * sizeof(float)),
                0);
      for (size_t i = 0; i < one.k.size(); ++i) {
        if (one.k[i].bits == 0xFFFF) continue;
        ASSERT_EQ(one.k[i].bits, all.k[i].bits) << name(isa) << " token " << t;
      }
    }
  }
}

TEST_F(QkvTest, RefusesSlotsOutsideTheCacheAndTakesZeroTokens) {
  make({});
  EXPECT_NO_THROW(run(2, 2));
  layout_.slots[0] = 80;
  EXPECT_THROW(run(0, 1), Error);
  layout_.slots[0] = -1;
  EXPECT_THROW(run(0, 1), Error);
  layout_.slots[0] = 0;
  inv_freq_.resize(32);
  layout_.dim = 24;
  EXPECT_THROW(run(0, 1), ShapeError);
}

}  // namespace
}  // namespace hocket::ops
