#include "comm/protocol.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

namespace hocket::comm {
namespace {

constexpr int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

Expected<void> in_range(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return fail(Code::config, fmt::format("all-to-all: {} = {}, must be {}..{}", field, value, low, high));
}

Expected<void> is_multiple(std::string_view field, int64_t value, std::string_view of, int64_t unit) {
  if (value % unit == 0) return {};
  return fail(Code::config, fmt::format("all-to-all: {} = {}, must be a multiple of {} ({})", field, value, of, unit));
}

/// Most rows that one source can make of one message: each row once per distinct local expert.
int64_t most_per_source(const Config& c) { return c.max_tokens * std::min(c.top_k, c.local_experts()); }

bool repeats(const int32_t* choices, int j) {
  return std::find(choices, choices + j, choices[j]) != choices + j;
}

}  // namespace

std::string_view name(Direction direction) {
  return direction == Direction::dispatch ? "dispatch" : "combine";
}

std::string_view name(Backend backend) {
  switch (backend) {
    case Backend::high_throughput: return "high_throughput";
    case Backend::low_latency: return "low_latency";
    case Backend::allgather: return "allgather";
  }
  return "unknown";
}

Expected<Backend> parse_backend(std::string_view text) {
  struct Alias {
    std::string_view text;
    Backend backend;
  };
  static constexpr Alias kAliases[] = {
      {"high_throughput", Backend::high_throughput}, {"ht", Backend::high_throughput},
      {"deepep_high_throughput", Backend::high_throughput},
      {"low_latency", Backend::low_latency},         {"ll", Backend::low_latency},
      {"deepep_low_latency", Backend::low_latency},
      {"allgather", Backend::allgather},             {"allgather_reducescatter", Backend::allgather},
      {"naive", Backend::allgather}};
  for (const Alias& alias : kAliases) {
    if (alias.text == text) return alias.backend;
  }
  return fail(Code::config,
              fmt::format("unknown all-to-all back end '{}': use high_throughput, low_latency or allgather", text));
}

int64_t Config::capacity() const {
  const int64_t rows = ranks * most_per_source(*this);
  return round_up(rows + int64_t{local_experts()} * (expert_align - 1), expert_align);
}

Expected<void> validate(const Config& c) {
  Expected<void> good = in_range("ranks", c.ranks, 1, 64);
  if (good) good = in_range("rank", c.rank, 0, c.ranks - 1);
  if (good) good = in_range("experts", c.experts, 1, 2048);
  if (good) good = is_multiple("experts", c.experts, "ranks", c.ranks);
  if (good) good = in_range("top_k", c.top_k, 1, 32);
  if (good) good = in_range("hidden", c.hidden, 16, 16384);
  if (good) good = is_multiple("hidden", c.hidden, "16 elements", 16);
  if (good) good = in_range("max_tokens", c.max_tokens, 1, int64_t{1} << 20);
  if (good) good = in_range("max_ubatches", c.max_ubatches, 1, 8);
  if (good) good = in_range("slots_per_ubatch", c.slots_per_ubatch, 1, 8);
  if (good) good = in_range("expert_align", c.expert_align, 1, 256);
  if (good && !std::has_single_bit(static_cast<unsigned>(c.expert_align))) {
    good = fail(Code::config, fmt::format("all-to-all: expert_align = {}, must be a power of two", c.expert_align));
  }
  if (good) good = in_range("backend", static_cast<int>(c.backend), 0, 2);
  if (good) good = in_range("wire", static_cast<int>(c.wire), 0, 1);
  if (good) good = in_range("timeout in ms", c.timeout.count(), 1, 86'400'000);
  if (good) good = in_range("open_timeout in ms", c.open_timeout.count(), 1, 86'400'000);
  if (good) good = in_range("rows that can arrive (ranks, max_tokens, top_k)", c.capacity(), 1,
                            std::numeric_limits<int32_t>::max());
  return good;
}

std::string difference(const Config& a, const Config& b) {
  std::string text;
  const auto compare = [&](std::string_view field, auto x, auto y) {
    if (!text.empty() || x == y) return;
    text = fmt::format("all-to-all: {} is {} on rank {} and {} on rank {}: all ranks need the same", field, x, a.rank,
                       y, b.rank);
  };
  compare("ranks", a.ranks, b.ranks);
  compare("experts", a.experts, b.experts);
  compare("top_k", a.top_k, b.top_k);
  compare("hidden", a.hidden, b.hidden);
  compare("max_tokens", a.max_tokens, b.max_tokens);
  compare("max_ubatches", a.max_ubatches, b.max_ubatches);
  compare("slots_per_ubatch", a.slots_per_ubatch, b.slots_per_ubatch);
  compare("expert_align", a.expert_align, b.expert_align);
  compare("backend", name(a.backend), name(b.backend));
  compare("wire", a.wire == Wire::bf16 ? "bf16" : "fp8_f32", b.wire == Wire::bf16 ? "bf16" : "fp8_f32");
  compare("timeout in ms", a.timeout.count(), b.timeout.count());
  compare("open_timeout in ms", a.open_timeout.count(), b.open_timeout.count());
  return text;
}

Layout::Layout(const Config& c) {
  data_bytes = int64_t{c.hidden} * (c.wire == Wire::bf16 ? 2 : 1);
  scales_per_row = c.wire == Wire::bf16 ? 0 : (c.hidden + quant::kScaleBlock - 1) / quant::kScaleBlock;
  scales_offset = round_up(data_bytes, 16);
  ids_offset = scales_offset + round_up(scales_per_row * 4, 16);
  row_bytes = ids_offset + round_up(int64_t{c.top_k} * 4, 16);
  rows_offset = round_up((1 + int64_t{c.local_experts()}) * 4, 16);
  back_bytes = int64_t{c.hidden} * 2;
  max_back = most_per_source(c);
  dispatch_bytes = round_up(rows_offset + c.max_tokens * row_bytes, 64);
  combine_bytes = round_up(max_back * back_bytes, 64);
}

Plan::Plan(const Config& c)
    : ranks_(c.ranks), local_experts_(c.local_experts()), experts_(c.experts), top_k_(c.top_k),
      max_tokens_(c.max_tokens), to_everyone_(c.backend == Backend::allgather),
      rows_(static_cast<size_t>(c.ranks * c.max_tokens)), num_rows_(static_cast<size_t>(c.ranks)),
      counts_(static_cast<size_t>(c.experts)), answer_(static_cast<size_t>(c.max_tokens * c.top_k)),
      num_answers_(static_cast<size_t>(c.ranks)) {}

void Plan::clear(Code code) {
  code_ = code;
  tokens_ = 0;
  std::fill(num_rows_.begin(), num_rows_.end(), 0);
  std::fill(counts_.begin(), counts_.end(), 0);
  std::fill(num_answers_.begin(), num_answers_.end(), 0);
}

bool Plan::ids_are_valid(const int32_t* expert, int64_t tokens) const {
  int32_t low = 0, high = -1;  // no early exit: the loop is a vector reduction
  for (int64_t i = 0; i < tokens * top_k_; ++i) {
    low = std::min(low, expert[i]);
    high = std::max(high, expert[i]);
  }
  return low >= -1 && high < experts_;
}

/// Answers and counts of one token; returns its owners as a mask.
uint64_t Plan::place_choices(const int32_t* choices, int32_t* answers) {
  uint64_t owners = 0;
  for (int j = 0; j < top_k_; ++j) {
    answers[j] = -1;
    if (choices[j] < 0) continue;
    if (repeats(choices, j)) {  // rule 3: one row on the wire, one term per appearance
      answers[j] = answers[std::find(choices, choices + j, choices[j]) - choices];
      continue;
    }
    const int owner = choices[j] / local_experts_;
    ++counts_[static_cast<size_t>(choices[j])];  // [ranks][local_experts] is indexed by the global id
    answers[j] = num_answers_[static_cast<size_t>(owner)]++;
    owners |= uint64_t{1} << owner;
  }
  return owners;
}

Code Plan::build(const int32_t* expert, int64_t tokens) {
  clear(tokens > max_tokens_                  ? Code::capacity
        : ids_are_valid(expert, tokens) ? Code::ok
                                        : Code::bad_id);
  if (code_ != Code::ok) return code_;
  tokens_ = tokens;
  const uint64_t everyone = ~uint64_t{0} >> (64 - ranks_);
  for (int64_t t = 0; t < tokens; ++t) {
    uint64_t owners = place_choices(expert + t * top_k_, answer_.data() + t * top_k_);
    if (to_everyone_) owners = everyone;
    for (; owners != 0; owners &= owners - 1) {
      const auto rank = static_cast<size_t>(std::countr_zero(owners));
      rows_[rank * static_cast<size_t>(max_tokens_) + static_cast<size_t>(num_rows_[rank]++)] = static_cast<int32_t>(t);
    }
  }
  return code_;
}

std::span<const int32_t> Plan::rows_to(int rank) const {
  return {rows_.data() + rank * max_tokens_, static_cast<size_t>(num_rows_[static_cast<size_t>(rank)])};
}

std::span<const int32_t> Plan::counts(int rank) const {
  return {counts_.data() + int64_t{rank} * local_experts_, static_cast<size_t>(local_experts_)};
}

Inbound::Inbound(const Config& c)
    : first_expert_(c.rank * c.local_experts()), local_experts_(c.local_experts()), top_k_(c.top_k),
      align_(c.expert_align), max_entries_(most_per_source(c)), max_tokens_(c.max_tokens),
      counts_(static_cast<size_t>(local_experts_)), offsets_(static_cast<size_t>(local_experts_) + 1),
      begin_(static_cast<size_t>(c.experts)), end_(static_cast<size_t>(c.experts)),
      num_entries_(static_cast<size_t>(c.ranks)),
      entries_(c.ranks * max_entries_ * static_cast<int64_t>(sizeof(Entry))) {}

void Inbound::clear() {
  std::fill(counts_.begin(), counts_.end(), 0);
  std::fill(offsets_.begin(), offsets_.end(), 0);
  std::fill(num_entries_.begin(), num_entries_.end(), 0);
}

void Inbound::set_counts(std::span<const SourceRows> sources) {
  clear();
  for (size_t e = 0; e < counts_.size(); ++e) {
    int64_t position = offsets_[e];
    for (size_t s = 0; s < sources.size(); ++s) {
      const int64_t count = sources[s].rows == 0 ? 0 : sources[s].counts[e];
      if (count < 0 || count > sources[s].rows || sources[s].rows > max_tokens_) {
        throw InvariantError(fmt::format("all-to-all: rank {} claims {} rows for local expert {} in {} rows", s, count,
                                         e, sources[s].rows));
      }
      begin_[s * counts_.size() + e] = static_cast<int32_t>(position);
      position += count;
      end_[s * counts_.size() + e] = static_cast<int32_t>(position);
      counts_[e] += static_cast<int32_t>(count);
    }
    offsets_[e + 1] = static_cast<int32_t>(round_up(position, align_));
  }
}

void Inbound::place(int source, const SourceRows& rows) {
  Entry* const first = reinterpret_cast<Entry*>(entries_.data()) + source * max_entries_;
  Entry* next = first;
  int32_t* const begin = begin_.data() + int64_t{source} * local_experts_;
  const int32_t* const end = end_.data() + int64_t{source} * local_experts_;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const auto* ids = reinterpret_cast<const int32_t*>(rows.ids + row * rows.ids_stride);
    for (int j = 0; j < top_k_; ++j) {
      const int64_t e = int64_t{ids[j]} - first_expert_;
      if (e < 0 || e >= local_experts_ || repeats(ids, j)) continue;
      if (begin[e] == end[e]) {
        throw InvariantError(fmt::format("all-to-all: rank {} sent more rows for local expert {} than it claimed", source, e));
      }
      *next++ = {static_cast<int32_t>(row), begin[e]++};
    }
  }
  if (!std::equal(begin, begin + local_experts_, end)) {
    throw InvariantError(fmt::format("all-to-all: rank {} sent fewer rows than it claimed", source));
  }
  num_entries_[static_cast<size_t>(source)] = next - first;
}

std::span<const Inbound::Entry> Inbound::entries(int source) const {
  return {reinterpret_cast<const Entry*>(entries_.data()) + source * max_entries_,
          static_cast<size_t>(num_entries_[static_cast<size_t>(source)])};
}

}  // namespace hocket::comm
