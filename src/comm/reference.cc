#include "comm/reference.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "quant/fp8.h"

namespace hocket::comm {
namespace {

bool is_guilty(const Config& config, const ReferenceInput& input) {
  if (input.tokens > config.max_tokens) return true;
  return std::any_of(input.expert.begin(), input.expert.end(),
                     [&](int32_t id) { return id < -1 || id >= config.experts; });
}

bool chooses(const Config& config, const ReferenceInput& input, int64_t token, int expert) {
  const auto first = input.expert.begin() + token * config.top_k;
  return std::find(first, first + config.top_k, expert) != first + config.top_k;
}

std::span<const quant::Bf16> row_of(const Config& config, const ReferenceInput& input, int64_t token) {
  return std::span(input.x).subspan(static_cast<size_t>(token * config.hidden), static_cast<size_t>(config.hidden));
}

}  // namespace

ReferenceRow reference_row(const Config& config, std::span<const quant::Bf16> x) {
  if (config.wire == Wire::bf16) return {{x.begin(), x.end()}, {}};
  ReferenceRow row;
  for (size_t block = 0; block < x.size(); block += quant::kScaleBlock) {
    const auto columns = x.subspan(block, std::min<size_t>(quant::kScaleBlock, x.size() - block));
    float amax = 1e-10F;
    for (const quant::Bf16 value : columns) amax = std::max(amax, std::fabs(quant::to_float(value)));
    const float scale = amax / 448.0F;
    row.scales.push_back(scale);
    for (const quant::Bf16 value : columns) {
      row.values.push_back(quant::to_bf16(quant::to_float(quant::to_e4m3(quant::to_float(value) / scale))));
    }
  }
  return row;
}

ReferenceReceived reference_dispatch(const Config& config, int rank, std::span<const ReferenceInput> inputs) {
  ReferenceReceived received;
  received.offsets.push_back(0);
  const int first = rank * config.local_experts();
  for (int expert = first; expert < first + config.local_experts(); ++expert) {
    int32_t count = 0;
    for (const ReferenceInput& input : inputs) {
      for (int64_t t = 0; t < input.tokens && !is_guilty(config, input); ++t) {
        if (!chooses(config, input, t, expert)) continue;
        received.rows.push_back(reference_row(config, row_of(config, input, t)));
        ++count;
      }
    }
    while (received.rows.size() % static_cast<size_t>(config.expert_align) != 0) received.rows.emplace_back();
    received.counts.push_back(count);
    received.offsets.push_back(static_cast<int32_t>(received.rows.size()));
  }
  return received;
}

std::vector<float> reference_combine(const Config& config, const ReferenceInput& input, ReferenceExpert expert) {
  std::vector<float> out;
  const bool guilty = is_guilty(config, input);
  for (int64_t t = 0; t < input.tokens; ++t) {
    std::multimap<int32_t, float> terms;  // ascending id; equal ids stay in the order of insertion
    for (int64_t i = t * config.top_k; i < (t + 1) * config.top_k && !guilty; ++i) {
      if (input.expert[static_cast<size_t>(i)] >= 0) {
        terms.emplace(input.expert[static_cast<size_t>(i)], input.weight[static_cast<size_t>(i)]);
      }
    }
    std::vector<float> sum(static_cast<size_t>(config.hidden), 0.0F);
    for (const auto& [id, weight] : terms) {
      const std::vector<quant::Bf16> y = expert(id, reference_row(config, row_of(config, input, t)));
      for (size_t c = 0; c < sum.size(); ++c) sum[c] = std::fma(weight, quant::to_float(y[c]), sum[c]);
    }
    out.insert(out.end(), sum.begin(), sum.end());
  }
  return out;
}

}  // namespace hocket::comm
