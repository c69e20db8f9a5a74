#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "device/cpu/seeded.h"
#include "ops/ops.h"

namespace hocket::ops {
namespace {

using device::DType;
using quant::Bf16;

struct Routes {
  std::vector<int32_t> expert;
  std::vector<float> weight;
  bool operator==(const Routes&) const = default;
};

struct Inputs {
  int64_t tokens, experts, hidden;
  std::vector<Bf16> x;
  std::vector<float> gate;

  Inputs(int64_t t, int64_t e, int64_t h, uint32_t seed) : tokens(t), experts(e), hidden(h) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < t * h; ++i) x.push_back(quant::to_bf16(normal(random)));
    for (int64_t i = 0; i < e * h; ++i) gate.push_back(normal(random) / 8);
  }
  /// Routes tokens [begin, end).
  Routes route(int64_t k, Normalize normalize, int64_t begin, int64_t end, Isa isa = best_isa()) {
    device::cpu::SeededDevice device(1, isa);
    const auto stream = device.make_stream("compute");
    const int64_t count = end - begin;
    Routes out{std::vector<int32_t>(static_cast<size_t>(count * k), -1),
               std::vector<float>(static_cast<size_t>(count * k), -1)};
    router({*stream}, {out.expert.data(), DType::i32, {count, k}},
           {out.weight.data(), DType::f32, {count, k}},
           {x.data() + begin * hidden, DType::bf16, {count, hidden}},
           {gate.data(), DType::f32, {experts, hidden}}, normalize);
    stream->synchronize();
    return out;
  }
  Routes route(int64_t k, Normalize normalize) { return route(k, normalize, 0, tokens); }
  std::vector<double> softmax(int64_t token) const {
    std::vector<double> p;
    for (int64_t e = 0; e < experts; ++e) {
      double logit = 0;
      for (int64_t i = 0; i < hidden; ++i) {
        logit += static_cast<double>(quant::to_float(x[token * hidden + i])) * gate[e * hidden + i];
      }
      p.push_back(std::exp(logit));
    }
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) value /= total;
    return p;
  }
};

TEST(Router, ChoosesTheLargestOfTheSoftmaxInAscendingId) {
  for (auto [experts, k] :
       {std::pair<int64_t, int64_t>{16, 4}, {128, 8}, {512, 32}, {5, 5}, {1, 1}}) {
    Inputs inputs(23, experts, 64, 9);
    for (Normalize normalize : {Normalize::off, Normalize::on}) {
      const Routes routes = inputs.route(k, normalize);
      for (int64_t t = 0; t < inputs.tokens; ++t) {
        const std::vector<double> p = inputs.softmax(t);
        std::vector<int32_t> order(p.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int32_t a, int32_t b) { return p[a] > p[b]; });
        if (k < experts && p[order[k - 1]] - p[order[k]] < 1e-6)
          continue;  // the sixth digit may turn such a choice
        std::sort(order.begin(), order.begin() + k);
        double total = 0;
        for (int64_t i = 0; i < k; ++i) total += p[order[i]];
        for (int64_t i = 0; i < k; ++i) {
          ASSERT_EQ(routes.expert[t * k + i], order[i]) << "token " << t;
          const double expected = normalize == Normalize::on ? p[order[i]] / total : p[order[i]];
          ASSERT_NEAR(routes.weight[t * k + i], expected, 1e-5 * expected) << "token " << t;
        }
      }
    }
  }
}

TEST(Router, EqualScoresGoToTheLowerId) {
  Inputs inputs(3, 12, 32, 9);
  for (int64_t i = 0; i < 32; ++i) {  // experts 2, 5, 9 and 10 are one another's copies
    for (int64_t copy : {5, 9, 10}) inputs.gate[copy * 32 + i] = inputs.gate[2 * 32 + i];
  }
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t k = 1; k <= 12; ++k) {
      const Routes routes = inputs.route(k, Normalize::off, t, t + 1);
      std::vector<bool> chosen(12);
      for (int32_t e : routes.expert) chosen[e] = true;
      EXPECT_TRUE(chosen[2] || !chosen[5]);
      EXPECT_TRUE(chosen[5] || !chosen[9]);
      EXPECT_TRUE(chosen[9] || !chosen[10]);
      EXPECT_TRUE(std::is_sorted(routes.expert.begin(), routes.expert.end()));
    }
  }
  std::fill(inputs.gate.begin(), inputs.gate.end(), 0.0F);
  EXPECT_EQ(inputs.route(3, Normalize::off, 0, 1),
            (Routes{{0, 1, 2}, {1.0F / 12, 1.0F / 12, 1.0F / 12}}));
}

TEST(Router, NeitherRowsNorInstructionSetChangeABit) {
  Inputs inputs(67, 48, 100, 9);
  const Routes all = inputs.route(6, Normalize::on);
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa > best_isa()) continue;
    for (int64_t block : {1, 2, 7, 33, 67}) {
      Routes joined;
      for (int64_t begin = 0; begin < 67; begin += block) {
        const Routes part =
            inputs.route(6, Normalize::on, begin, std::min<int64_t>(67, begin + block), isa);
        joined.expert.insert(joined.expert.end(), part.expert.begin(), part.expert.end());
        joined.weight.insert(joined.weight.end(), part.weight.begin(), part.weight.end());
      }
      EXPECT_EQ(joined, all) << name(isa) << ", " << block << " rows at a time";
    }
  }
}

TEST(Router, NanStillGivesDistinctIds) {
  Inputs inputs(1, 8, 16, 9);
  inputs.x[3] = Bf16{0x7FC0};
  const Routes routes = inputs.route(3, Normalize::on);
  EXPECT_EQ(routes.expert, (std::vector<int32_t>{0, 1, 2}));
}

TEST(Router, RefusesImpossibleCountsAndTakesZeroTokens) {
  Inputs inputs(2, 8, 16, 9);
  EXPECT_THROW(inputs.route(9, Normalize::on), ShapeError);
  EXPECT_THROW(inputs.route(0, Normalize::on), ShapeError);
  Inputs many(1, 64, 16, 9);
  EXPECT_THROW(many.route(33, Normalize::on), ShapeError);
  EXPECT_NO_THROW(inputs.route(2, Normalize::on, 0, 0));
}

}  // namespace
}  // namespace hocket::ops
