#include "sim/solve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "sim/layers.h"
#include "sim/match.h"

namespace hocket::sim {
namespace {

using device::Label;

Pricer flops_as_ns() {
  return [](const Label&, const device::Cost& cost) { return Price{.flops = cost.flops}; };
}
device::Work work(const char* stage, double ns, int16_t ubatch = 0) {
  return {{stage, ubatch, 0}, {.flops = ns}, {}};
}

/// One dispatch: after `ns` of compute a rank sends `bytes[rank]` to every rank.
Graph one_exchange(const std::vector<double>& ns, const std::vector<std::vector<double>>& bytes,
                   int sms = 0) {
  Graph graph{.ranks = static_cast<int>(ns.size())};
  for (int rank = 0; rank < graph.ranks; ++rank) {
    RecordDevice device(graph, rank, flops_as_ns());
    const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
    compute->launch(work("attention", ns[static_cast<size_t>(rank)]));
    comm->wait(compute->record());
    auto& wire = dynamic_cast<RecordStream&>(*comm);
    compute->wait(
        wire.exchange({"dispatch", 0, 0}, {.bytes = bytes[static_cast<size_t>(rank)], .sms = sms}));
    compute->launch(work("experts", 10));
  }
  return graph;
}
Nanos end_of(const Graph& graph, const Machine& machine, int rank, const char* name) {
  const auto solution = solve(graph, machine);
  if (!solution) throw Error(solution.error().code, solution.error().message);
  return timeline(graph, *solution, rank).at(name).end;
}

TEST(Solve, AnExchangeEndsWhenTheLastRankHasSent) {
  const Graph graph = one_exchange({100, 300}, {{0, 50}, {50, 0}});
  const Machine machine{.link = {1, 1}, .latency_ns = 7};
  EXPECT_EQ(end_of(graph, machine, 0, "u0/L0/dispatch"), Nanos(357));
  EXPECT_EQ(end_of(graph, machine, 1, "u0/L0/experts"), Nanos(367));
}

TEST(Solve, ARankWithoutRowsStillWaitsForItsPeers) {
  const Graph graph = one_exchange({100, 300}, {{0, 0}, {0, 0}});
  EXPECT_EQ(end_of(graph, {}, 0, "u0/L0/dispatch"), Nanos(300));
}

// Three ranks send 60 bytes each to rank 0: its ingress is the limit, all arrive after 120 ns. Rank
// 0 sends 30 bytes to rank 1, which nothing slows.
TEST(Solve, FlowsShareEgressAndIngress) {
  const Graph graph = one_exchange({0, 0, 0}, {{0, 30, 0}, {60, 0, 0}, {60, 0, 0}});
  EXPECT_EQ(end_of(graph, {}, 0, "u0/L0/dispatch"), Nanos(120));
  EXPECT_EQ(end_of(graph, {}, 1, "u0/L0/dispatch"), Nanos(120)) << "its own bytes leave late";
  EXPECT_EQ(end_of(graph, {}, 2, "u0/L0/dispatch"), Nanos(120));
}

TEST(Solve, WhatAFlowLeavesUnusedGoesToTheOthers) {
  std::vector<Flow> flows = {{0, 0, 1, 1, 0}, {0, 0, 2, 1, 0}, {1, 1, 2, 1, 0}};
  share(flows, 3, {.egress = 3, .ingress = 2}, {0, 0});
  EXPECT_DOUBLE_EQ(flows[1].rate, 1);
  EXPECT_DOUBLE_EQ(flows[2].rate, 1);
  EXPECT_DOUBLE_EQ(flows[0].rate, 2);
  share(flows, 3, {.egress = 3, .ingress = 2}, {0.5, 0});
  EXPECT_DOUBLE_EQ(flows[0].rate, 0.25) << "stores of the first node";
  EXPECT_DOUBLE_EQ(flows[2].rate, 1.75);
}

// Two nodes of two ranks: what leaves the node is limited by the NIC, what stays by the link.
TEST(Solve, NodesAreJoinedByTheirNics) {
  std::vector<Flow> flows = {{0, 0, 1, 1, 0}, {0, 0, 2, 1, 0}, {0, 0, 3, 1, 0}, {1, 1, 2, 1, 0}};
  share(flows, 4, {.egress = 9, .ingress = 9, .nic = 2, .node_ranks = 2}, {0, 0});
  EXPECT_DOUBLE_EQ(flows[0].rate, 9);
  EXPECT_DOUBLE_EQ(flows[1].rate, 1);
  EXPECT_DOUBLE_EQ(flows[2].rate, 1);
  EXPECT_DOUBLE_EQ(flows[3].rate, 1);
}

TEST(Solve, AFewSmsCannotFillTheLink) {
  const Graph graph = one_exchange({0, 0}, {{0, 100}, {100, 0}}, 2);
  const Machine machine{.link = {10, 10}, .sms = 10, .store_per_sm = 0.5};
  EXPECT_EQ(end_of(graph, machine, 0, "u0/L0/dispatch"), Nanos(100));
}

// 10 SMs, an exchange holds 2 of them from 0 to 100 ns: matrix work of 160 ns at full rate does 80
// of it in those 100 ns.
Graph beside_an_exchange(Price price) {
  Graph graph{.ranks = 1};
  RecordDevice device(graph, 0, [price](const auto&, const auto&) { return price; });
  const auto compute = device.make_stream("compute"), comm = device.make_stream("comm");
  (void)dynamic_cast<RecordStream&>(*comm).exchange({"dispatch", 0, 0},
                                                    {.fixed_ns = 100, .sms = 2});
  compute->launch(work("experts", 0));
  return graph;
}

TEST(Solve, ComputeSlowsWhileAnExchangeHoldsSms) {
  Machine machine{.sms = 10, .memory_sms = 4};
  EXPECT_EQ(end_of(beside_an_exchange({.flops = 160}), machine, 0, "u0/L0/experts"), Nanos(180));
  EXPECT_EQ(end_of(beside_an_exchange({.memory = 160}), machine, 0, "u0/L0/experts"), Nanos(160));
  EXPECT_EQ(end_of(beside_an_exchange({.flops = 80, .max_sms = 5}), machine, 0, "u0/L0/experts"),
            Nanos(160));
  machine.partition = Partition::none;
  EXPECT_EQ(end_of(beside_an_exchange({.flops = 160}), machine, 0, "u0/L0/experts"), Nanos(160));
  machine.partition = Partition::fixed;
  machine.comm_sms = 2;
  EXPECT_EQ(end_of(beside_an_exchange({.flops = 160}), machine, 0, "u0/L0/experts"), Nanos(200));
}

TEST(Solve, ADeviceCannotRunAheadOfItsHost) {
  Graph graph{.ranks = 1};
  RecordDevice device(graph, 0, flops_as_ns(), Nanos(40));
  const auto compute = device.make_stream("compute");
  compute->launch(work("attention", 10));
  compute->launch(work("experts", 100));
  compute->synchronize();
  device.spend("sample", Nanos(5));
  compute->launch(work("shared", 1));
  EXPECT_EQ(end_of(graph, {}, 0, "u0/L0/attention"), Nanos(50));
  EXPECT_EQ(end_of(graph, {}, 0, "u0/L0/experts"), Nanos(180));
  EXPECT_EQ(end_of(graph, {}, 0, "u0/L0/shared"), Nanos(226));
}

// Rank 1 takes its turns the other way round: each rank's comm is inside an exchange that the other
// rank has queued behind its own.
Graph swapped_turns() {
  Graph graph{.ranks = 2};
  for (int rank = 0; rank < 2; ++rank) {
    RecordDevice device(graph, rank, flops_as_ns());
    const auto comm = device.make_stream("comm");
    auto& wire = dynamic_cast<RecordStream&>(*comm);
    for (int turn = 0; turn < 2; ++turn) {
      const auto ubatch = static_cast<int16_t>(rank == 0 ? turn : 1 - turn);
      (void)wire.exchange({"dispatch", ubatch, 0}, {.key = {0, ubatch, Direction::dispatch}});
    }
  }
  return graph;
}

TEST(Solve, ASwappedTurnIsACycleByName) {
  const auto solution = solve(swapped_turns(), {});
  ASSERT_FALSE(solution);
  EXPECT_EQ(solution.error().message,
            "the ranks wait for each other: rank 0 u0/L0/dispatch waits for rank 1 u0/L0/dispatch "
            "waits for rank 1 u1/L0/dispatch waits for rank 0 u1/L0/dispatch waits for rank 0 "
            "u0/L0/dispatch.");
}

TEST(Match, NamesRankAndNode) {
  EXPECT_EQ(check_order(swapped_turns()).error().message,
            "exchange 0 is rank 0 u0/L0/dispatch but rank 1 u1/L0/dispatch: the ranks take turns "
            "differently.");
  Graph missing = swapped_turns();
  missing.exchanges[3].key.layer = 7;
  EXPECT_EQ(solve(missing, {}).error().message, "rank 0 u0/L0/dispatch has no partner on rank 1.");
  missing.exchanges[3].key = missing.exchanges[2].key;
  EXPECT_EQ(match(missing).error().message, "rank 1 u0/L0/dispatch is issued twice.");
}

std::vector<StageTimes> random_times(size_t count) {
  std::mt19937_64 random(38451);
  const auto some = [&] { return static_cast<double>(random() % 1000 + 1); };
  std::vector<StageTimes> all;
  for (size_t i = 0; i < count; ++i) all.push_back({some(), some(), some(), some(), some()});
  return all;
}

TEST(Solve, AStepLiesBetweenItsBoundAndTheSumOfItsParts) {
  for (const StageTimes& t : random_times(100)) {
    for (int ubatches = 1; ubatches <= 4; ++ubatches) {
      StageRun run{.ranks = 2, .ubatches = ubatches, .order = {.layers = 3}};
      const double length = static_cast<double>(run_stages(t, run).end().count());
      const double compute = 3 * ubatches * (t.attention + t.shared + t.experts);
      const double wire = 3 * ubatches * (t.dispatch + t.combine);
      EXPECT_GE(length, std::max(compute, wire));
      EXPECT_LE(length, compute + wire);
      run.order.capture = EventCapture::after_yield;
      if (ubatches != 2) continue;
      EXPECT_EQ(run_stages(t, run).end().count(), std::llround(compute + wire));
    }
  }
}

TEST(Solve, ALongerStageNeverShortensTheStep) {
  for (const StageTimes& t : random_times(100)) {
    const StageRun run{.order = {.layers = 3}};
    const Nanos before = run_stages(t, run).end();
    for (double StageTimes::*stage :
         {&StageTimes::attention, &StageTimes::shared, &StageTimes::experts, &StageTimes::dispatch,
          &StageTimes::combine}) {
      StageTimes longer = t;
      longer.*stage += 100;
      EXPECT_GE(run_stages(longer, run).end(), before);
    }
  }
}

TEST(Solve, TheOrderOfRanksDoesNotMatter) {
  const std::vector<std::vector<double>> bytes = {{0, 30, 70}, {110, 0, 13}, {17, 190, 0}};
  const Graph graph = one_exchange({10, 20, 30}, bytes);
  std::vector<std::vector<double>> turned(3, std::vector<double>(3));
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) turned[(i + 1) % 3][(j + 1) % 3] = bytes[i][j];
  }
  const Graph other = one_exchange({30, 10, 20}, turned);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(end_of(graph, {}, rank, "u0/L0/experts"),
              end_of(other, {}, (rank + 1) % 3, "u0/L0/experts"));
}

}  // namespace
}  // namespace hocket::sim
