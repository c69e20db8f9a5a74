#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hocket::sched {
namespace {

struct Entry {
  Request request;
  std::vector<kv::BlockHash>
      hashes;        // of its full blocks from the first on, as far as they were needed
  int32_t row = -1;  // in the open plan

  int64_t known() const { return static_cast<int64_t>(request.tokens.size()); }
  int64_t remaining() const { return known() - request.computed; }
  bool decodes() const { return remaining() == 1 && request.computed >= request.prompt_tokens; }
};

/// Old requests first. FCFS and preemption of the latest keep every running request older than
/// every waiting one.
using ByArrival = std::map<int64_t, Entry*>;

struct Share {
  Entry* entry;
  int64_t query;
};

/// Tokens whose K/V a request holds at most: the last token it generates is never computed.
int64_t peak_tokens(const Request& request, const Limits& limits) {
  const int64_t room = limits.max_model_len - request.prompt_tokens;
  const int64_t generated = std::max<int64_t>(std::min(request.sampling.max_tokens, room), 1);
  return std::max(request.prompt_tokens + generated - 1,
                  static_cast<int64_t>(request.tokens.size()));
}

}  // namespace

struct Scheduler::Impl {
  Limits limits;
  kv::BlockPool& pool;
  std::map<int64_t, Entry> entries;  // by id; nodes do not move, so rows may point into them
  ByArrival waiting, running;
  int64_t arrivals = 0, preemptions = 0;
  dbo::StepPlan plan;
  bool open = false;

  int64_t blocks_for(int64_t tokens) const {
    return (tokens + pool.block_size() - 1) / pool.block_size();
  }
  void require_closed(const char* call) const {
    if (open) throw InvariantError(fmt::format("Scheduler::{} while a plan is open", call));
  }
  Entry& entry(int64_t id, const char* call) {
    const auto found = entries.find(id);
    if (found != entries.end()) return found->second;
    throw InvariantError(fmt::format("Scheduler::{}: there is no request {}", call, id));
  }

  void release_blocks(Request& request);
  Request remove(Entry& entry);
  std::vector<Share> choose();
  void reserve(const Share& share);
  void preempt(Entry& entry);
  void extend_hashes(Entry& entry, int64_t count);
  void add_row(Entry& entry, int64_t query);
  bool admit(Entry& entry, int64_t budget);
  void set_writer(dbo::PlanRow& row, std::span<const kv::PrefixHit> hits) const;
};

/// The end of a sequence is freed first and so evicted first: beginnings are what others share.
void Scheduler::Impl::release_blocks(Request& request) {
  for (auto block = request.blocks.rbegin(); block != request.blocks.rend(); ++block) {
    pool.release(*block);
  }
  request.blocks.clear();
}

Request Scheduler::Impl::remove(Entry& entry) {
  Request request = std::move(entry.request);
  release_blocks(request);
  request.state = State::finished;
  waiting.erase(request.arrival);
  running.erase(request.arrival);
  entries.erase(request.id);
  return request;
}

/// How many tokens each running request gets, in plan order: decodes before prefills, so that a
/// long prompt never holds up a token that is due.
std::vector<Share> Scheduler::Impl::choose() {
  std::vector<Share> shares;
  int64_t budget = limits.max_batched_tokens;
  const auto take = [&](Entry& entry) {
    const int64_t query = std::min(entry.remaining(), budget);
    if (query > 0) shares.push_back({&entry, query});
    budget -= query;
  };
  for (const auto& [arrival, entry] : running) {
    if (entry->remaining() == 0) {
      throw InvariantError(
          fmt::format("request {} has all of its {} tokens computed: append() or finish() it",
                      entry->request.id, entry->known()));
    }
    if (entry->decodes()) take(*entry);
  }
  for (const auto& [arrival, entry] : running) {
    if (!entry->decodes()) take(*entry);
  }
  return shares;
}

/// Blocks for a running request, taken from the latest arrivals if need be; the last of them may be
/// itself. Only decodes ever need any: a request is admitted with blocks for all tokens it has.
void Scheduler::Impl::reserve(const Share& share) {
  Request& request = share.entry->request;
  const int64_t have = static_cast<int64_t>(request.blocks.size());
  const int64_t missing = blocks_for(request.computed + share.query) - have;
  while (missing > 0 && request.state == State::running) {
    if (const auto blocks = pool.allocate(missing)) {
      request.blocks.insert(request.blocks.end(), blocks->begin(), blocks->end());
      return;
    }
    if (running.size() == 1) {
      throw InvariantError(
          fmt::format("request {} alone needs {} more KV blocks than the pool has: it has {} "
                      "tokens, more than add() was told",
                      request.id, missing, share.entry->known()));
    }
    preempt(*running.rbegin()->second);
  }
}

/// Back to the queue, to be recomputed with the tokens it has; they give the same K/V again.
void Scheduler::Impl::preempt(Entry& entry) {
  Request& request = entry.request;
  release_blocks(request);
  request.computed = 0;
  request.state = State::waiting;
  ++request.preemptions;
  ++preemptions;
  running.erase(request.arrival);
  waiting.emplace(request.arrival, &entry);
}

void Scheduler::Impl::extend_hashes(Entry& entry, int64_t count) {
  const std::span<const int32_t> tokens = entry.request.tokens;
  while (static_cast<int64_t>(entry.hashes.size()) < count) {
    const kv::BlockHash parent = entry.hashes.empty() ? kv::BlockHash{} : entry.hashes.back();
    const size_t first = entry.hashes.size() * pool.block_size();
    entry.hashes.push_back(kv::chain(parent, tokens.subspan(first, pool.block_size())));
  }
}

/// Adds the row and announces the blocks that it fills to their end: later admissions may read
/// those in this same step.
void Scheduler::Impl::add_row(Entry& entry, int64_t query) {
  const Request& request = entry.request;
  const int64_t end = request.computed + query;
  entry.row = static_cast<int32_t>(plan.rows.size());
  plan.rows.push_back({.request = request.id,
                       .computed = request.computed,
                       .query = query,
                       .blocks = std::span(request.blocks).first(blocks_for(end)),
                       .tokens = std::span(request.tokens).subspan(request.computed, query),
                       .samples = end == entry.known()});
  if (pool.caching() == kv::Caching::off) return;
  const int64_t full = end / pool.block_size();
  extend_hashes(entry, full);
  for (int64_t i = request.computed / pool.block_size(); i < full; ++i) {
    pool.announce(request.blocks[i], entry.hashes[i], request.id);
  }
}

/// Admits the oldest waiting request if there are blocks for all of its tokens, else it waits:
/// admitted for its first chunk only, it could be preempted and computed over and over.
bool Scheduler::Impl::admit(Entry& entry, int64_t budget) {
  Request& request = entry.request;
  std::vector<kv::PrefixHit> hits;
  if (pool.caching() == kv::Caching::on) {
    const int64_t full =
        (entry.known() - 1) / pool.block_size();  // one token must be left to compute
    extend_hashes(entry, full);
    hits = pool.find(std::span(entry.hashes).first(full));
  }
  // References first: allocate() may evict cached blocks.
  for (const kv::PrefixHit& hit : hits) {
    pool.share(hit.block);
    request.blocks.push_back(hit.block);
  }
  const int64_t cached = static_cast<int64_t>(hits.size()) * pool.block_size();
  const auto blocks = pool.allocate(blocks_for(entry.known() - cached));
  if (!blocks) {
    release_blocks(request);
    return false;
  }
  request.blocks.insert(request.blocks.end(), blocks->begin(), blocks->end());
  request.computed = cached;
  if (request.preemptions == 0) {
    request.cached = cached;
    pool.count_lookup(entry.known(), cached);
  }
  request.state = State::running;
  waiting.erase(request.arrival);
  running.emplace(request.arrival, &entry);
  add_row(entry, std::min(entry.remaining(), budget));
  set_writer(plan.rows.back(), hits);
  return true;
}

/// Among the rows that fill blocks which `row` reads, the one that comes last, with the last of
/// those blocks.
void Scheduler::Impl::set_writer(dbo::PlanRow& row, std::span<const kv::PrefixHit> hits) const {
  int64_t end = 0;
  for (const kv::PrefixHit& hit : hits) {
    end += pool.block_size();
    if (hit.pending_writer < 0) continue;
    const int32_t writer = entries.at(hit.pending_writer).row;
    if (writer < row.writer) continue;
    row.writer = writer;
    row.writer_tokens = end - plan.rows[writer].computed;
  }
}

Scheduler::Scheduler(Limits limits, kv::BlockPool& pool)
    : impl_(new Impl{.limits = limits, .pool = pool, .entries{}, .waiting{}, .running{}, .plan{}}) {
  if (limits.max_batched_tokens < 1 || limits.max_seqs < 1 || limits.max_model_len < 2) {
    throw Error(
        Code::config,
        fmt::format(
            "max-num-batched-tokens {} and max-num-seqs {} must be at least 1, max-model-len {} at "
            "least 2",
            limits.max_batched_tokens, limits.max_seqs, limits.max_model_len));
  }
}

Scheduler::~Scheduler() = default;

Expected<void> Scheduler::add(Request request) {
  Impl& s = *impl_;
  if (request.prompt_tokens == 0) {
    request.prompt_tokens = static_cast<int64_t>(request.tokens.size());
  }
  if (request.tokens.empty() || request.prompt_tokens >= s.limits.max_model_len) {
    return fail(Code::bad_input,
                fmt::format("a prompt of {} tokens does not fit: it must have 1 to {}",
                            request.prompt_tokens, s.limits.max_model_len - 1));
  }
  const int64_t needed = s.blocks_for(peak_tokens(request, s.limits)), total = s.pool.stats().total;
  if (needed > total) {
    return fail(Code::capacity, fmt::format("a prompt of {} tokens with max_tokens {} needs {} KV "
                                            "blocks of {} tokens, there are {}: "
                                            "lower max_tokens or enlarge the KV cache",
                                            request.prompt_tokens, request.sampling.max_tokens,
                                            needed, s.pool.block_size(), total));
  }
  request.arrival = s.arrivals++;
  request.state = State::waiting;
  request.computed = request.cached = request.preemptions = 0;
  request.blocks.clear();
  const int64_t id = request.id;
  const auto [place, is_new] = s.entries.try_emplace(id);
  if (!is_new) throw InvariantError(fmt::format("Scheduler::add: request {} exists already", id));
  place->second.request = std::move(request);
  s.waiting.emplace(place->second.request.arrival, &place->second);
  return {};
}

void Scheduler::abort(int64_t id) {
  impl_->require_closed("abort");
  const auto found = impl_->entries.find(id);
  if (found != impl_->entries.end()) impl_->remove(found->second);
}

bool Scheduler::has_work() const { return !impl_->entries.empty(); }

const dbo::StepPlan& Scheduler::plan() {
  Impl& s = *impl_;
  s.require_closed("plan");
  s.plan = {};
  const std::vector<Share> shares = s.choose();
  for (const Share& share : shares) s.reserve(share);
  // Rows, and with them announced blocks, only now that nothing can be preempted any more.
  bool uniform = true;
  int64_t budget = s.limits.max_batched_tokens;
  for (const auto& [entry, query] : shares) {
    if (entry->request.state != State::running) continue;
    uniform = uniform && entry->decodes();
    s.add_row(*entry, query);
    budget -= query;
  }
  while (budget > 0 && !s.waiting.empty() &&
         static_cast<int64_t>(s.running.size()) < s.limits.max_seqs) {
    Entry& entry = *s.waiting.begin()->second;
    if (!s.admit(entry, budget)) break;
    uniform = uniform && entry.decodes();
    budget -= s.plan.rows.back().query;
  }
  s.open = !s.plan.rows.empty();
  s.plan.uniform_query = s.open && uniform ? 1 : 0;
  return s.plan;
}

void Scheduler::commit() {
  Impl& s = *impl_;
  if (!s.open) return;
  for (const dbo::PlanRow& row : s.plan.rows) {
    Entry& entry = s.entry(row.request, "commit");
    entry.request.computed += row.query;
    entry.row = -1;
  }
  s.pool.publish_announced();
  s.open = false;
}

std::vector<Request> Scheduler::rollback() {
  Impl& s = *impl_;
  std::vector<Request> failed;
  if (!s.open) return failed;
  s.pool.drop_announced();
  for (const dbo::PlanRow& row : s.plan.rows) {
    failed.push_back(s.remove(s.entry(row.request, "rollback")));
  }
  s.plan = {};
  s.open = false;
  return failed;
}

void Scheduler::append(int64_t id, int32_t token) {
  impl_->require_closed("append");
  Entry& entry = impl_->entry(id, "append");
  if (entry.remaining() != 0) {
    throw InvariantError(fmt::format("Scheduler::append: request {} has {} tokens to compute first",
                                     id, entry.remaining()));
  }
  entry.request.tokens.push_back(token);
}

Request Scheduler::finish(int64_t id) {
  impl_->require_closed("finish");
  return impl_->remove(impl_->entry(id, "finish"));
}

const Request* Scheduler::find(int64_t id) const {
  const auto found = impl_->entries.find(id);
  return found == impl_->entries.end() ? nullptr : &found->second.request;
}

Counters Scheduler::counters() const {
  Counters counters{.waiting = static_cast<int64_t>(impl_->waiting.size()),
                    .running = static_cast<int64_t>(impl_->running.size()),
                    .preemptions = impl_->preemptions};
  for (const auto& [arrival, entry] : impl_->waiting) {
    counters.queued_tokens += entry->request.prompt_tokens;
  }
  return counters;
}

}  // namespace hocket::sched
