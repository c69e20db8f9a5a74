// Drives whole rounds through real passes, streams and back ends, and compares every bit with the oracle. Tests only.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "comm/reference.h"
#include "comm/threads.h"
#include "dbo/run.h"
#include "device/stream.h"

namespace hocket::comm::harness {

/// How ids are drawn. `dropped` of 8 choices are -1; `skew` of 8 go to expert 0's rank; `repeats` of 8 copy a neighbour.
struct Draw {
  int dropped = 1, skew = 0, repeats = 1;
};
ReferenceInput make_input(const Config& config, int64_t tokens, uint64_t seed, Draw draw = {});

/// What the test's experts do: a value that depends on expert, column, code and scale.
std::vector<quant::Bf16> expert_row(int expert, const ReferenceRow& row);

/// tokens[step][layer][ubatch][rank]; a layer is one round of each ubatch.
using Tokens = std::vector<std::vector<std::vector<std::vector<int64_t>>>>;
Tokens draw_tokens(const Config& config, int steps, int layers, int ubatches, uint64_t seed);

struct Script {
  Config config;  ///< of rank 0
  Tokens tokens;
  uint64_t seed = 0;
  Draw draw{};
  /// Called with every input after it is drawn.
  std::function<void(ReferenceInput&, int step, int layer, int ubatch, int rank)> edit{};
};

/// All rounds of one script: inputs, expected results, and what came out.
class Play {
 public:
  explicit Play(const Script& script);
  /// Enqueues one step of one rank on its streams.
  void enqueue(int rank, int step, AllToAll& a2a, device::Stream& compute, device::Stream& comm);
  /// Mismatches of one step, or of all; each is reported with gtest's ADD_FAILURE, at most a few.
  int64_t mismatches(int first_step = 0) const;
  const Config& config() const { return script_.config; }
  int steps() const { return static_cast<int>(script_.tokens.size()); }
  const std::vector<ReferenceInput>& inputs(int step, int layer, int ubatch) const { return at(step, layer, ubatch).input; }

 private:
  struct Cell;   // one (step, layer, ubatch)
  struct Group {
    std::vector<ReferenceInput> input;        // by rank
    std::vector<std::unique_ptr<Cell>> cell;  // by rank
  };
  dbo::Task pass(dbo::Ubatch& ub, AllToAll& a2a, int rank, int step);
  const Group& at(int step, int layer, int ubatch) const;
  Script script_;
  std::vector<Group> groups_;  // [step][layer][ubatch]
  int layers_, ubatches_;
  device::Arena arena_{64};

 public:
  ~Play();
};

using Ends = std::vector<std::unique_ptr<AllToAll>>;
/// The ends of all ranks, opened on threads of their own.
Ends open_all(const Config& config, Hub& hub, const TestHooks& hooks = {});
Ends open_all(const Config& config, Hub& hub, const std::function<TestHooks(int rank)>& hooks);
/// All ranks reform on threads of their own; true if all succeeded.
bool reform_all(Ends& ends);

/// Every rank's streams on one seeded device; returns mismatches. Deadlocks throw.
int64_t play_seeded(Play& play, Ends& ends, uint64_t seed);

/// Ranks on threads, streams of CpuDevice with `threads` compute threads each. The first error of a rank is rethrown.
int64_t play_threads(Play& play, Ends& ends, int threads);

}  // namespace hocket::comm::harness
