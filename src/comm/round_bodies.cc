// The work of a round, as it runs on the streams. Which stream and when: round.cc. Rules by number: docs/all2all.md.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "comm/round.h"

namespace hocket::comm {
namespace {

constexpr int kMaxTopK = 32;

void copy(void* to, const void* from, int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); }

/// body(i) for i in [0, count), `grain` at a time; a single grain does not wake the pool.
template <class Body>
void for_each(device::Parallel& parallel, int64_t count, int64_t grain, const Body& body) {
  const int64_t grains = (count + grain - 1) / grain;
  const auto run = [&](int64_t g, int) {
    for (int64_t i = g * grain; i < std::min(count, (g + 1) * grain); ++i) body(i);
  };
  if (grains == 1) {
    run(0, 0);
  } else if (grains > 1) {
    parallel.run(grains, run);
  }
}

}  // namespace

void Endpoint::report(const Status& found) {
  const std::lock_guard lock(mutex);
  if (status.code == Code::ok) status = found;
}

/// Checks ids, decides every place, and quantises. The quantiser sees one row alone, also for rows that stay (rule 5).
void RoundSlot::plan(const Call& call, device::Parallel& parallel) {
  end_.at("plan", index_);
  const Config& c = end_.config;
  if (work_.plan.build(call.expert, call.tokens) != Code::ok || c.wire == Wire::bf16) return;
  auto* const codes = reinterpret_cast<uint8_t*>(work_.codes.data());
  auto* const scales = reinterpret_cast<float*>(work_.code_scales.data());
  for_each(parallel, call.tokens, 32, [&](int64_t t) {
    call.ops->quantise(codes + t * c.hidden, scales + t * end_.layout.scales_per_row, call.x + t * c.hidden, c.hidden);
  });
}

SourceRows RoundSlot::own_rows(const Call& call) const {
  const Config& c = end_.config;
  SourceRows rows{.rows = work_.plan.tokens(),
                  .data = reinterpret_cast<const std::byte*>(call.x),
                  .ids = reinterpret_cast<const std::byte*>(call.expert),
                  .data_stride = end_.layout.data_bytes,
                  .scales_stride = end_.layout.scales_per_row * 4,
                  .ids_stride = int64_t{c.top_k} * 4,
                  .counts = work_.plan.counts(c.rank).data()};
  if (c.wire != Wire::bf16) {
    rows.data = work_.codes.data();
    rows.scales = work_.code_scales.data();
  }
  return rows;
}

/// The combine flag of the previous round is each peer's leave to write again (rule 8). With the calls in order it is
/// always there, so a missing one is a broken protocol and not a reason to wait.
bool RoundSlot::peers_have_answered(uint64_t epoch) const {
  for (int r = 0; r < end_.config.ranks; ++r) {
    if (!reached(end_.fabric->word(channel(r, Direction::combine)), epoch)) return false;
  }
  return true;
}

/// Raises a flag at every rank whatever there is to send (rule 1); its own last, which says that this rank has sent all.
void RoundSlot::push_rows(const Call& call, const device::Label& label) {
  end_.at("push", index_);
  const Config& c = end_.config;
  if (!call.first && !peers_have_answered(call.epoch - 1)) work_.plan.clear(Code::epoch);
  const Code code = work_.plan.code();
  const SourceRows own = own_rows(call);
  for (int i = 1; i <= c.ranks; ++i) {
    const int peer = (c.rank + i) % c.ranks;
    const int64_t bytes = peer == c.rank || code != Code::ok ? 0 : pack(peer, own);
    end_.at("publish", index_);
    end_.fabric->publish(channel(peer, Direction::dispatch), bytes, word_of(call.epoch, code), label);
    end_.wire_bytes += bytes;
  }
}

int64_t RoundSlot::pack(int peer, const SourceRows& own) {
  const Layout& layout = end_.layout;
  std::byte* const message = end_.fabric->outbox(channel(peer, Direction::dispatch));
  const std::span<const int32_t> rows = work_.plan.rows_to(peer);
  const std::span<const int32_t> counts = work_.plan.counts(peer);
  const auto num_rows = static_cast<int32_t>(rows.size());
  copy(message, &num_rows, 4);
  copy(message + 4, counts.data(), static_cast<int64_t>(counts.size_bytes()));
  std::byte* to = message + layout.rows_offset;
  for (const int64_t t : rows) {
    copy(to, own.data + t * own.data_stride, own.data_stride);
    if (own.scales != nullptr) copy(to + layout.scales_offset, own.scales + t * own.scales_stride, own.scales_stride);
    copy(to + layout.ids_offset, own.ids + t * own.ids_stride, own.ids_stride);
    to += layout.row_bytes;
  }
  return to - message;
}

/// The rows of every source. A source with an error has none, here and on every other rank (rule 9).
void RoundSlot::gather_sources(const Call& call) {
  const Config& c = end_.config;
  const Layout& layout = end_.layout;
  Status status{.epoch = call.epoch};
  for (int s = 0; s < c.ranks; ++s) {
    const Channel from = channel(s, Direction::dispatch);
    const Code code = code_of(end_.fabric->word(from));
    SourceRows& source = work_.sources[static_cast<size_t>(s)];
    source = {};
    if (code != Code::ok) {
      if (status.code == Code::ok) status.code = code;
      status.peers |= uint64_t{1} << s;
      continue;
    }
    if (s == c.rank) {
      source = own_rows(call);
      continue;
    }
    const std::byte* const message = end_.fabric->inbox(from);
    const auto* const header = reinterpret_cast<const int32_t*>(message);
    const std::byte* const rows = message + layout.rows_offset;
    source = {.rows = header[0], .data = rows, .scales = layout.scales_per_row > 0 ? rows + layout.scales_offset : nullptr,
              .ids = rows + layout.ids_offset, .data_stride = layout.row_bytes, .scales_stride = layout.row_bytes,
              .ids_stride = layout.row_bytes, .counts = header + 1};
  }
  if (status.code == Code::ok) return;
  status.what = fmt::format("{} in dispatch of round {} on slot {}: rank {} broke max_tokens = {} or experts = {}",
                            name(status.code), round_of(call.epoch), index_, std::countr_zero(status.peers),
                            c.max_tokens, c.experts);
  end_.report(status);
}

void RoundSlot::unpack(const Call& call, device::Parallel& parallel) {
  end_.at("unpack", index_);
  gather_sources(call);
  Inbound& inbound = work_.inbound;
  inbound.set_counts(work_.sources);
  const auto num_sources = static_cast<int64_t>(work_.sources.size());
  int64_t rows = 0;
  for (const SourceRows& source : work_.sources) rows += source.rows;
  for_each(parallel, num_sources, rows > 256 ? 1 : num_sources, [&](int64_t s) {
    inbound.place(static_cast<int>(s), work_.sources[static_cast<size_t>(s)]);
  });
  for (int64_t s = 0; s < num_sources; ++s) {
    const std::span<const Inbound::Entry> entries = inbound.entries(static_cast<int>(s));
    const SourceRows& source = work_.sources[static_cast<size_t>(s)];
    for_each(parallel, static_cast<int64_t>(entries.size()), 64,
             [&](int64_t i) { copy_entry(*call.ops, source, entries[static_cast<size_t>(i)]); });
  }
}

void RoundSlot::copy_entry(const RowOps& ops, const SourceRows& source, Inbound::Entry entry) {
  const int64_t hidden = end_.config.hidden;
  const std::byte* const data = source.data + entry.row * source.data_stride;
  std::byte* const to = work_.rows.data() + entry.position * hidden * 2;
  if (source.scales == nullptr) {
    copy(to, data, hidden * 2);
    return;
  }
  ops.widen(reinterpret_cast<quant::Bf16*>(to), reinterpret_cast<const uint8_t*>(data), hidden);
  const int64_t bytes = end_.layout.scales_per_row * 4;
  copy(work_.scales.data() + entry.position * bytes, source.scales + entry.row * source.scales_stride, bytes);
}

/// One row per (token, distinct local expert) goes home, in the order in which the home rank numbered its answers.
void RoundSlot::push_answers(const Call& call, const device::Label& label) {
  end_.at("combine", index_);
  const Config& c = end_.config;
  const int32_t arrived_rows = work_.inbound.offsets().back();
  if (arrived_rows > call.y_rows) {
    throw ShapeError(fmt::format("all-to-all combine: y has {} rows, {} have arrived", call.y_rows, arrived_rows));
  }
  for (int i = 1; i <= c.ranks; ++i) {
    const int peer = (c.rank + i) % c.ranks;
    const int64_t bytes = peer == c.rank ? 0 : pack_answers(peer, call);
    // The last reader of what the peer dispatched is behind us; the flag below lets it write again.
    if (end_.poisons()) end_.fabric->poison(channel(peer, Direction::dispatch));
    if (end_.poisons() && peer == c.rank) std::memset(work_.rows.data(), 0xFF, static_cast<size_t>(work_.rows.size()));
    end_.at("publish", index_);
    end_.fabric->publish(channel(peer, Direction::combine), bytes, word_of(call.epoch, Code::ok), label);
    end_.wire_bytes += bytes;
  }
}

int64_t RoundSlot::pack_answers(int peer, const Call& call) {
  const int64_t row_bytes = end_.layout.back_bytes;
  std::byte* const message = end_.fabric->outbox(channel(peer, Direction::combine));
  std::byte* to = message;
  for (const Inbound::Entry& entry : work_.inbound.entries(peer)) {
    copy(to, call.y + int64_t{entry.position} * end_.config.hidden, row_bytes);
    to += row_bytes;
  }
  return to - message;
}

void RoundSlot::sum_at_home(const Call& call, float* out, device::Parallel& parallel) {
  end_.at("home_sum", index_);
  const int64_t hidden = end_.config.hidden;
  for_each(parallel, call.tokens, 16, [&](int64_t t) { sum_token(call, t, out + t * hidden); });
  if (!end_.poisons()) return;
  for (int r = 0; r < end_.config.ranks; ++r) end_.fabric->poison(channel(r, Direction::combine));
}

/// f32, from +0, in ascending expert id: a function of the token's ids, weights and rows alone (rule 4).
void RoundSlot::sum_token(const Call& call, int64_t token, float* out) const {
  const Config& c = end_.config;
  std::array<int, kMaxTopK> order;
  int terms = 0;
  const int32_t* const ids = call.expert + token * c.top_k;
  for (int j = 0; j < c.top_k && work_.plan.code() == Code::ok; ++j) {
    if (ids[j] < 0) continue;
    int at = terms++;
    for (; at > 0 && ids[order[static_cast<size_t>(at - 1)]] > ids[j]; --at) {
      order[static_cast<size_t>(at)] = order[static_cast<size_t>(at - 1)];
    }
    order[static_cast<size_t>(at)] = j;
  }
  std::array<const quant::Bf16*, kMaxTopK> rows;
  std::array<float, kMaxTopK> weights;
  for (size_t i = 0; i < static_cast<size_t>(terms); ++i) {
    const int j = order[i];
    const int owner = ids[j] / c.local_experts();
    const int64_t answer = work_.plan.answer(token, j);
    const std::byte* const message = end_.fabric->inbox(channel(owner, Direction::combine));
    rows[i] = owner == c.rank
                  ? call.y + int64_t{work_.inbound.entries(owner)[static_cast<size_t>(answer)].position} * c.hidden
                  : reinterpret_cast<const quant::Bf16*>(message) + answer * c.hidden;
    weights[i] = call.weight[token * c.top_k + j];
  }
  call.ops->weighted_sum(out, rows.data(), weights.data(), terms, c.hidden);
}

}  // namespace hocket::comm
