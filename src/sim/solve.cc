#include "sim/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/match.h"

namespace hocket::sim {
namespace {

constexpr double kDust = 1e-3;  // ns: what rounding may leave of a node that has ended
constexpr double kNever = std::numeric_limits<double>::infinity();

enum class Stage : uint8_t { waiting, running, latency, done };

class Solver {
 public:
  Solver(const Graph& graph, const Machine& machine, Matching matching)
      : graph_(graph), machine_(machine), matching_(std::move(matching)) {
    const size_t count = graph.nodes.size();
    stage_.assign(count, Stage::waiting);
    left_.assign(count, 0);
    rate_.assign(count, 0);
    open_.assign(count, 0);
    store_.assign(count, 0);
    held_.assign(static_cast<size_t>(graph.ranks), 0);
    solution_.begin.assign(count, Nanos(0));
    solution_.end.assign(count, Nanos(0));
    index_edges();
    // an exchange ends on a rank when every rank's bytes have come and its own have left
    arriving_.assign(count, graph.ranks);
    leaving_.assign(count, 0);
  }

  Expected<Solution> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (open_[i] == 0) ready_.push_back(static_cast<NodeId>(i));
    }
    while (true) {
      start_ready();
      if (done_ == graph_.nodes.size()) break;
      set_rates();
      const double step = next_end();
      if (step == kNever) return fail(Code::internal, cycle());
      advance(std::max(1.0, std::ceil(step - kDust)));
    }
    solution_.length = Nanos(now_);
    return std::move(solution_);
  }

 private:
  static size_t at(NodeId id) { return static_cast<size_t>(id); }
  const Node& node(NodeId id) const { return graph_.nodes[at(id)]; }
  const ExchangeNode& exchange(NodeId id) const {
    return graph_.exchanges[static_cast<size_t>(node(id).exchange)];
  }
  const std::vector<NodeId>& members(NodeId id) const {
    return matching_
        .members[static_cast<size_t>(matching_.group[static_cast<size_t>(node(id).exchange)])];
  }

  void index_edges() {
    first_.assign(graph_.nodes.size() + 1, 0);
    for (const Node& one : graph_.nodes) {
      for (const NodeId before : one.after) ++first_[at(before) + 1];
    }
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    next_.resize(static_cast<size_t>(first_.back()));
    std::vector<int32_t> fill(first_.begin(), first_.end() - 1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      open_[i] = static_cast<int32_t>(graph_.nodes[i].after.size());
      for (const NodeId before : graph_.nodes[i].after)
        next_[static_cast<size_t>(fill[at(before)]++)] = static_cast<NodeId>(i);
    }
  }

  // Ties go by node, that is by rank and its order where ranks were recorded one after another.
  void start_ready() {
    while (!ready_.empty()) {
      std::sort(ready_.begin(), ready_.end());
      const std::vector<NodeId> batch = std::exchange(ready_, {});
      for (const NodeId id : batch) start(id);
    }
  }

  void start(NodeId id) {
    stage_[at(id)] = Stage::running;
    solution_.begin[at(id)] = Nanos(now_);
    if (node(id).exchange >= 0) return start_exchange(id);
    const Price& price = node(id).price;
    if (price.fixed + price.flops + price.memory <= 0) return finish(id);
    left_[at(id)] = 1;
    running_.push_back(id);
    rates_stale_ = true;
  }

  void start_exchange(NodeId id) {
    const ExchangeNode& mine = exchange(id);
    held_[static_cast<size_t>(node(id).rank)] += mine.sms;
    store_[at(id)] = machine_.store_per_sm * mine.sms;
    rates_stale_ = true;
    const bool timed = mine.fixed_ns > 0;
    for (int to = 0; to < graph_.ranks; ++to) {
      const double bytes = mine.bytes.empty() ? 0 : mine.bytes[static_cast<size_t>(to)];
      if (to != node(id).rank && bytes > 0) {
        flows_.push_back({id, node(id).rank, to, bytes / mine.speed, 0});
        ++leaving_[at(id)];
        flows_stale_ = true;
      } else if (!timed) {
        arrive(id, to);
      }
    }
    if (timed) {
      ++leaving_[at(id)];
      left_[at(id)] = 1;
      running_.push_back(id);
    }
    settle(id);
  }

  void arrive(NodeId from, int to) {
    const NodeId there = members(from)[static_cast<size_t>(to)];
    --arriving_[at(there)];
    settle(there);
  }
  // Begins the last stretch of an exchange that lacks nothing else.
  void settle(NodeId id) {
    if (stage_[at(id)] != Stage::running || arriving_[at(id)] > 0 || leaving_[at(id)] > 0) return;
    if (machine_.latency_ns <= 0) return finish(id);
    stage_[at(id)] = Stage::latency;
    left_[at(id)] = 1;
    running_.push_back(id);
    rates_stale_ = true;
  }

  void finish(NodeId id) {
    stage_[at(id)] = Stage::done;
    solution_.end[at(id)] = Nanos(now_);
    ++done_;
    if (node(id).exchange >= 0) {
      held_[static_cast<size_t>(node(id).rank)] -= exchange(id).sms;
      rates_stale_ = true;
    }
    for (int32_t i = first_[at(id)]; i < first_[at(id) + 1]; ++i) {
      const NodeId after = next_[static_cast<size_t>(i)];
      if (--open_[at(after)] == 0) ready_.push_back(after);
    }
  }

  void set_rates() {
    if (flows_stale_) share(flows_, graph_.ranks, machine_.link, store_);
    flows_stale_ = false;
    if (!rates_stale_) return;
    rates_stale_ = false;
    for (const NodeId id : running_) {
      const Node& one = node(id);
      double ns = 0;
      if (one.exchange >= 0) {
        ns = stage_[at(id)] == Stage::latency ? machine_.latency_ns : exchange(id).fixed_ns;
      } else {
        int sms = machine_.sms;
        if (one.lane == Lane::compute && machine_.partition == Partition::dynamic)
          sms -= held_[static_cast<size_t>(one.rank)];
        if (machine_.partition == Partition::fixed) sms -= machine_.comm_sms;
        ns = duration(one.price, sms, machine_);
      }
      rate_[at(id)] = 1 / ns;
    }
  }

  double next_end() const {
    double soonest = kNever;
    for (const NodeId id : running_) soonest = std::min(soonest, left_[at(id)] / rate_[at(id)]);
    for (const Flow& flow : flows_) soonest = std::min(soonest, flow.left / flow.rate);
    return soonest;
  }

  void advance(double ns) {
    now_ += static_cast<int64_t>(ns);
    std::vector<NodeId> ended;
    std::erase_if(running_, [&](NodeId id) {
      left_[at(id)] -= ns * rate_[at(id)];
      const bool over = left_[at(id)] <= kDust * rate_[at(id)];
      if (over) ended.push_back(id);
      return over;
    });
    std::vector<Flow> arrived;
    std::erase_if(flows_, [&](Flow& flow) {
      flow.left -= ns * flow.rate;
      const bool over = flow.left <= kDust * flow.rate;
      if (over) arrived.push_back(flow);
      return over;
    });
    flows_stale_ |= !arrived.empty();
    rates_stale_ |= !ended.empty();
    for (const Flow& flow : arrived) {
      --leaving_[at(flow.node)];
      arrive(flow.node, flow.to);
      settle(flow.node);
    }
    std::sort(ended.begin(), ended.end());
    for (const NodeId id : ended) end(id);
  }

  void end(NodeId id) {
    if (node(id).exchange < 0 || stage_[at(id)] == Stage::latency) return finish(id);
    --leaving_[at(id)];
    const ExchangeNode& mine = exchange(id);
    for (int to = 0; to < graph_.ranks; ++to) {
      const bool flows =
          !mine.bytes.empty() && to != node(id).rank && mine.bytes[static_cast<size_t>(to)] > 0;
      if (!flows) arrive(id, to);
    }
    settle(id);
  }

  // What keeps a node that has not ended.
  NodeId blocker(NodeId id) const {
    for (const NodeId before : node(id).after) {
      if (stage_[at(before)] != Stage::done) return before;
    }
    if (node(id).exchange >= 0) {
      for (const NodeId peer : members(id)) {
        if (stage_[at(peer)] == Stage::waiting) return peer;
      }
    }
    return -1;
  }

  std::string cycle() const {
    NodeId id = 0;
    while (stage_[at(id)] == Stage::done) ++id;
    std::vector<NodeId> path;
    while (id >= 0 && std::find(path.begin(), path.end(), id) == path.end()) {
      path.push_back(id);
      id = blocker(id);
    }
    std::string text = "the ranks wait for each other: ";
    auto from = std::find(path.begin(), path.end(), id);
    if (from == path.end()) from = path.begin();
    for (; from != path.end(); ++from) text += describe(graph_, *from) + " waits for ";
    return text + (id >= 0 ? describe(graph_, id) : "nothing") + ".";
  }

  const Graph& graph_;
  const Machine& machine_;
  Matching matching_;
  Solution solution_;
  int64_t now_ = 0;
  size_t done_ = 0;
  std::vector<Stage> stage_;
  std::vector<double> left_, rate_;  // share of a node that is left, and what goes of it per ns
  std::vector<int32_t> open_;        // edges into a node that are not done
  std::vector<int32_t> first_;       // edges out of a node: a range of next_
  std::vector<NodeId> next_;
  std::vector<int> arriving_, leaving_;  // of exchanges: ranks to hear from, flows to end
  std::vector<double> store_;
  std::vector<int> held_;  // SMs of each rank
  std::vector<NodeId> running_, ready_;
  std::vector<Flow> flows_;
  bool flows_stale_ = false, rates_stale_ = false;
};

bool shown(const Graph& graph, const Solution& solution, size_t i) {
  return graph.nodes[i].exchange >= 0 || solution.end[i] > solution.begin[i];
}

}  // namespace

double duration(const Price& price, int sms, const Machine& machine) {
  if (machine.sms <= 0) return price.fixed + std::max(price.flops, price.memory);
  if (price.max_sms > 0) sms = std::min(sms, price.max_sms);
  sms = std::max(1, sms);
  const double slower = static_cast<double>(machine.sms) / sms;
  const double starved = std::max(1.0, static_cast<double>(machine.memory_sms) / sms);
  return price.fixed + std::max(price.flops * slower, price.memory * starved);
}

Expected<Solution> solve(const Graph& graph, const Machine& machine) {
  auto matching = match(graph);
  if (!matching) return tl::unexpected(matching.error());
  return Solver(graph, machine, std::move(*matching)).run();
}

std::vector<telemetry::TraceSpan> spans(const Graph& graph, const Solution& solution) {
  std::vector<telemetry::TraceSpan> all;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!shown(graph, solution, i)) continue;
    const Node& node = graph.nodes[i];
    telemetry::TraceSpan span{node.rank,
                              name(node.lane),
                              node.label.str(),
                              solution.begin[i].count(),
                              solution.end[i].count(),
                              {}};
    if (node.exchange >= 0) {
      const ExchangeNode& exchange = graph.exchanges[static_cast<size_t>(node.exchange)];
      double bytes = 0;
      for (size_t to = 0; to < exchange.bytes.size(); ++to)
        bytes += static_cast<int>(to) == node.rank ? 0 : exchange.bytes[to];
      span.args = {{"bytes", std::llround(bytes)}, {"sms", exchange.sms}};
    }
    all.push_back(std::move(span));
  }
  return all;
}

device::sim::Timeline timeline(const Graph& graph, const Solution& solution, int rank) {
  device::sim::Timeline timeline;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.rank != rank || !shown(graph, solution, i)) continue;
    timeline.add({name(node.lane), node.label.str(), solution.begin[i], solution.end[i]});
  }
  return timeline;
}

}  // namespace hocket::sim
