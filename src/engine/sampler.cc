#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/rng.h"

namespace hocket::engine {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Candidate {
  int32_t id;
  float logit;
};
bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

float log_sum_exp(std::span<const float> logits) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - top);
  return top + static_cast<float>(std::log(sum));
}

std::vector<TokenLogprob> most_likely(std::span<const float> logits, float normalizer, int count) {
  std::vector<Candidate> all(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) all[i] = {static_cast<int32_t>(i), logits[i]};
  const auto wanted = std::min(all.size(), static_cast<size_t>(count));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(wanted), all.end(), likelier);
  std::vector<TokenLogprob> best;
  for (size_t i = 0; i < wanted; ++i) best.push_back({all[i].id, all[i].logit - normalizer});
  return best;
}

bool penalized(const sched::SamplingParams& p) {
  return p.presence_penalty != 0 || p.frequency_penalty != 0 || p.repetition_penalty != 1;
}

void penalize(std::span<float> logits, const SampleRow& row) {
  const sched::SamplingParams& p = *row.params;
  std::map<int32_t, int> seen;  // generated ids and how often
  for (int32_t id : row.generated) ++seen[id];
  for (const auto& [id, count] : seen) {
    logits[static_cast<size_t>(id)] -= p.presence_penalty + p.frequency_penalty * static_cast<float>(count);
  }
  if (p.repetition_penalty == 1) return;
  for (int32_t id : row.prompt) seen.emplace(id, 0);
  for (const auto& [id, count] : seen) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / p.repetition_penalty : logit * p.repetition_penalty;
  }
}

/// The candidates that may be drawn, likeliest first, their logits already divided by the temperature.
std::vector<Candidate> candidates(std::span<const float> logits, const sched::SamplingParams& p) {
  const float top = *std::max_element(logits.begin(), logits.end());
  const float floor = p.min_p > 0 ? top + p.temperature * std::log(p.min_p) : kNever;
  std::vector<Candidate> kept;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= floor && logits[i] != kNever) {
      kept.push_back({static_cast<int32_t>(i), (logits[i] - top) / p.temperature});
    }
  }
  std::sort(kept.begin(), kept.end(), likelier);
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < kept.size()) kept.resize(static_cast<size_t>(p.top_k));
  return kept;
}

int32_t draw(const std::vector<Candidate>& kept, const sched::SamplingParams& p, uint64_t position) {
  std::vector<double> cumulative;
  double sum = 0;
  for (const Candidate& c : kept) cumulative.push_back(sum += std::exp(static_cast<double>(c.logit)));
  size_t count = kept.size();
  if (p.top_p < 1) {
    const double enough = sum * static_cast<double>(p.top_p);
    while (count > 1 && cumulative[count - 2] >= enough) --count;  // the smallest set that reaches top_p
  }
  const double mark = uniform(p.seed, 0, position) * cumulative[count - 1];
  const auto it = std::upper_bound(cumulative.begin(), cumulative.begin() + static_cast<std::ptrdiff_t>(count), mark);
  const auto index = std::min(static_cast<size_t>(it - cumulative.begin()), count - 1);
  return kept[index].id;
}

}  // namespace

Sample sample(std::span<float> logits, const SampleRow& row) {
  const sched::SamplingParams& p = *row.params;
  Sample out;
  float normalizer = 0;
  std::vector<float> raw;
  if (p.logprobs >= 0) {
    raw.assign(logits.begin(), logits.end());
    normalizer = log_sum_exp(raw);
    if (p.logprobs > 0) out.top = most_likely(raw, normalizer, p.logprobs);
  }
  for (int32_t id : row.forbidden) logits[static_cast<size_t>(id)] = kNever;
  if (penalized(p)) penalize(logits, row);
  if (p.temperature == 0) {
    out.token = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  } else {
    out.token = draw(candidates(logits, p), p, row.generated.size());
  }
  if (p.logprobs >= 0) out.logprob = raw[static_cast<size_t>(out.token)] - normalizer;
  return out;
}

}  // namespace hocket::engine
