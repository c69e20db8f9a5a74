#include "dbo/run.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dbo/exchange.h"
#include "device/cpu/seeded.h"

namespace hocket::dbo {
namespace {

using Log = std::vector<std::string>;

// One rank's streams and ubatches, on a device where nothing runs until it is drained.
struct Rig {
  explicit Rig(int ubatches, Overlap overlap = Overlap::on) {
    for (int i = 0; i < ubatches; ++i) arenas.emplace_back(0);
    for (int i = 0; i < ubatches; ++i) {
      all.push_back(Ubatch{.index = i,
                           .compute = *compute,
                           .comm = *comm,
                           .arena = arenas[static_cast<size_t>(i)],
                           .overlap = overlap});
    }
  }
  device::cpu::SeededDevice device{1};
  std::unique_ptr<device::Stream> compute = device.make_stream("compute"),
                                  comm = device.make_stream("comm");
  std::vector<device::Arena> arenas;
  std::vector<Ubatch> all;
};

// Runs one task per ubatch, made by `make(ubatch)`.
template <class Make>
void run_all(Rig& rig, Make make) {
  std::vector<Task> tasks;
  std::vector<Pass> passes;
  tasks.reserve(rig.all.size());
  for (Ubatch& ub : rig.all) tasks.push_back(make(ub));
  for (size_t i = 0; i < tasks.size(); ++i) passes.push_back({&rig.all[i], &tasks[i]});
  run(passes);
}

class Turn : public Yield {
 public:
  using Yield::Yield;
  void await_resume() const noexcept {}
};

// Counts the objects that live in frames: a leaked or twice destroyed frame shows.
class Guard {
 public:
  explicit Guard(int& live) : live_(live) { ++live_; }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { --live_; }

 private:
  int& live_;
};

Task turns(Ubatch& ub, int count, Log& log) {
  for (int i = 0; i < count; ++i) {
    log.push_back(std::string(1, static_cast<char>('a' + ub.index)) + std::to_string(i));
    Turn turn(ub);
    co_await turn;
  }
}

TEST(Run, TurnsAreRoundRobinUntilAllAreDone) {
  Rig rig(3);
  Log log;
  run_all(rig, [&](Ubatch& ub) { return turns(ub, ub.index == 1 ? 1 : 3, log); });
  EXPECT_EQ(log, (Log{"a0", "b0", "c0", "a1", "c1", "a2", "c2"}));
}

TEST(Run, WithoutOverlapEachPassRunsThrough) {
  Rig rig(2, Overlap::off);
  Log log;
  run_all(rig, [&](Ubatch& ub) { return turns(ub, 2, log); });
  EXPECT_EQ(log, (Log{"a0", "a1", "b0", "b1"}));
}

TEST(Run, NothingToDoIsFine) {
  run({});
  Rig rig(2);
  Log log;
  run_all(rig, [&](Ubatch& ub) { return turns(ub, 0, log); });
  EXPECT_TRUE(log.empty());
}

Task nested(Ubatch& ub, int depth, Log& log) {
  if (depth == 0) {
    Task leaf = turns(ub, 2, log);
    co_await leaf;
  } else {
    Task child = nested(ub, depth - 1, log);
    co_await child;
  }
  log.push_back("up" + std::to_string(ub.index));
}

TEST(Run, ResumesTheInnermostFrame) {
  Rig rig(2);
  Log log;
  run_all(rig, [&](Ubatch& ub) { return nested(ub, 1, log); });
  EXPECT_EQ(log, (Log{"a0", "b0", "a1", "b1", "up0", "up0", "up1", "up1"}));
}

TEST(Task, AFrameThatNeverRanIsFreed) {
  Rig rig(1);
  Log log;
  { const Task task = turns(rig.all[0], 1, log); }
  EXPECT_TRUE(log.empty());
}

// Where a pass throws: before or after the first suspension of a layer, or not at all.
struct Throw {
  int ubatch = -1, layer = -1, stage = -1;
  bool here(const Ubatch& ub, int at_layer, int at_stage) const {
    return ub.index == ubatch && at_layer == layer && at_stage == stage;
  }
};
constexpr int kLayers = 5, kStages = 3;

void stage(const Ubatch& ub, int layer, int number, const Throw& fault) {
  if (fault.here(ub, layer, number)) throw Error(Code::internal, ub.where());
}
Task layer(Ubatch& ub, int number, const Throw& fault, int& live) {
  const Guard guard(live);
  ub.layer = static_cast<int16_t>(number);
  ub.stage = "attention";
  stage(ub, number, 0, fault);
  Turn dispatch(ub);
  co_await dispatch;
  const Guard second(live);
  ub.stage = "experts";
  stage(ub, number, 1, fault);
  Turn combine(ub);
  co_await combine;
  ub.stage = "finish";
  stage(ub, number, 2, fault);
}
Task model(Ubatch& ub, const Throw& fault, int& live, int& finished) {
  const Guard guard(live);
  for (int i = 0; i < kLayers; ++i) {
    Task task = layer(ub, i, fault, live);
    co_await task;
  }
  ++finished;
}

// A throw in any stage of any layer of any ubatch leaves run(), frees every frame, and names the
// place.
TEST(Fault, AG11_AThrowInAnyPassFreesAllFrames) {
  for (int ubatches = 1; ubatches <= 4; ++ubatches) {
    for (Overlap overlap : {Overlap::off, Overlap::on}) {
      for (int bad = 0; bad < ubatches; ++bad) {
        for (int at = 0; at < kLayers * kStages; ++at) {
          const Throw fault{bad, at / kStages, at % kStages};
          Rig rig(ubatches, overlap);
          int live = 0, finished = 0;
          std::string where;
          try {
            run_all(rig, [&](Ubatch& ub) { return model(ub, fault, live, finished); });
          } catch (const Error& error) {
            where = error.what();
          }
          const char* stages[] = {"attention", "experts", "finish"};
          EXPECT_EQ(where, (device::Label{stages[fault.stage], static_cast<int16_t>(bad),
                                          static_cast<int16_t>(fault.layer)}
                                .str()));
          EXPECT_EQ(live, 0) << "frames leaked: " << where << " of " << ubatches;
          EXPECT_LT(finished, ubatches);
        }
      }
    }
  }
}

TEST(Fault, ST06_AnyNumberOfUbatchesRuns) {
  for (int ubatches = 1; ubatches <= 8; ++ubatches) {
    Rig rig(ubatches);
    int live = 0, finished = 0;
    const Throw nowhere;  // outlives the passes, which keep a reference
    run_all(rig, [&](Ubatch& ub) { return model(ub, nowhere, live, finished); });
    EXPECT_EQ(finished, ubatches);
    EXPECT_EQ(live, 0);
  }
}

// Writes down what an exchange does and what its streams run.
class Noted final : public Transfer {
 public:
  Noted(Ubatch& ub, Log& log) : ub_(ub), log_(log) {}
  void prepare(device::Stream& compute) override {
    EXPECT_EQ(&compute, &ub_.compute);
    log_.push_back("prepare" + std::to_string(ub_.index));
  }
  void receive(device::Stream& compute) override {
    EXPECT_EQ(&compute, &ub_.compute);
    log_.push_back("receive" + std::to_string(ub_.index));
  }

 private:
  void push(device::Stream& comm) override {
    EXPECT_EQ(&comm, &ub_.comm);
    log_.push_back("push" + std::to_string(ub_.index));
  }
  Ubatch& ub_;
  Log& log_;
};

Task exchanging(Ubatch& ub, Log& log) {
  Noted transfer(ub, log);
  Exchange exchange(ub, transfer);
  log.push_back("beside" + std::to_string(ub.index));
  co_await exchange;
  log.push_back("after" + std::to_string(ub.index));
}

TEST(Exchange, SendsBeforeItSuspendsAndReceivesWhenItResumes) {
  Rig rig(2);
  Log log;
  run_all(rig, [&](Ubatch& ub) { return exchanging(ub, log); });
  EXPECT_EQ(log, (Log{"prepare0", "push0", "beside0", "prepare1", "push1", "beside1", "receive0",
                      "after0", "receive1", "after1"}));
  Rig plain(1, Overlap::off);
  log.clear();
  run_all(plain, [&](Ubatch& ub) { return exchanging(ub, log); });
  EXPECT_EQ(log, (Log{"prepare0", "push0", "beside0", "receive0", "after0"}));
}

}  // namespace
}  // namespace hocket::dbo
