#include <fmt/format.h>

#include <memory>

#include "kernels/cpu/row_kernels.h"
#include "ops/ops.h"
#include "ops/rows.h"

namespace hocket::ops {
namespace {

using device::DType;
using device::Parallel;
using device::require;
using quant::Bf16;

constexpr int64_t kMostExperts = 32;  ///< per token

/// The k largest of p (equal: lower id), in ascending id. Always k distinct ids, also if p holds
/// NaN.
void choose(const float* p, int64_t experts, int64_t k, int32_t* ids) {
  int64_t chosen = 0;
  for (int64_t e = 0; e < experts;
       ++e) {  // ids are kept by falling p; a later equal one comes behind
    if (chosen == k && !(p[e] > p[ids[k - 1]])) continue;
    int64_t at = chosen < k ? chosen++ : k - 1;
    for (; at > 0 && p[e] > p[ids[at - 1]]; --at) ids[at] = ids[at - 1];
    ids[at] = static_cast<int32_t>(e);
  }
  std::sort(ids, ids + k);
}

struct Routing {
  TensorView expert, weight, x, gate;
  Normalize normalize;
  const kernels::RowKernels* kernels;

  void tokens(int64_t begin, int64_t end) const {
    const int64_t hidden = x.dim(1), experts = gate.rows(), count = end - begin;
    const auto rows = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count * hidden));
    const auto logits =
        std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count * experts));
    kernels->widen(count * hidden, x.as<Bf16>() + begin * hidden, rows.get());
    kernels->router_logits({count, experts, hidden, gate.as<float>()}, rows.get(), logits.get());
    for (int64_t t = 0; t < count; ++t) one_token(begin + t, logits.get() + t * experts);
  }

 private:
  void one_token(int64_t token, float* logits) const {
    const int64_t experts = gate.rows(), k = expert.dim(1);
    int32_t* ids = expert.as<int32_t>() + token * k;
    float* weights = weight.as<float>() + token * k;
    kernels->softmax(experts, logits);
    choose(logits, experts, k, ids);
    float total = 0;
    for (int64_t i = 0; i < k; ++i) total += weights[i] = logits[ids[i]];
    if (normalize == Normalize::off) return;
    for (int64_t i = 0; i < k; ++i) weights[i] /= total;
  }
};

}  // namespace

void router(Lane on, TensorView expert, TensorView weight, TensorView x, TensorView gate,
            Normalize normalize) {
  const int64_t tokens = x.rows(), hidden = x.dim(1), experts = gate.rows(), k = expert.dim(1);
  require(x, DType::bf16, {tokens, hidden}, "router: x");
  require(gate, DType::f32, {experts, hidden}, "router: gate");
  require(expert, DType::i32, {tokens, k}, "router: expert");
  require(weight, DType::f32, {tokens, k}, "router: weight");
  if (k < 1 || k > experts || k > kMostExperts) {
    throw ShapeError(fmt::format("router: {} of {} experts; 1 to min({}, experts) are possible", k,
                                 experts, kMostExperts));
  }
  if (tokens == 0) return;
  const device::Cost cost{
      .flops = 2.0 * static_cast<double>(tokens * experts * hidden),
      .memory_bytes = static_cast<double>(x.bytes() + gate.bytes() + 2 * expert.bytes())};
  const Routing routing{expert, weight,    x,
                        gate,   normalize, &kernels::row_kernels(on.stream.device().isa())};
  on.launch("router", cost, [=](Parallel& threads) {
    // Up to 16 tokens share each row of the gate while it is in the first cache.
    const int64_t block = std::clamp<int64_t>(tokens / (2 * threads.width()), 1, 16);
    for_row_blocks(threads, tokens, block, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; t += 16) routing.tokens(t, std::min(end, t + 16));
    });
  });
}

}  // namespace hocket::ops
