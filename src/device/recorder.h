// When each launch ran: what streams write while a trace is asked for. Without a recorder a stream reads no clock.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/stream.h"
#include "telemetry/trace.h"

namespace hocket::device {

/// What a rank did in a step, for readers of a trace.
struct StepFacts {
  int64_t number = -1;
  int64_t tokens = 0, attention_pairs = 0;
  int64_t uniform_query = 0;  ///< q if every request decoded q tokens, else 0
  int64_t ubatches = 0;
};

/// The intervals of one lane of one rank. Written by one thread, without locks; memory grows in
/// blocks up to the capacity, then the oldest intervals make room.
class LaneRecorder {
 public:
  explicit LaneRecorder(size_t capacity) : capacity_(capacity) {}
  void add(const Label& label, const Cost& cost, Clock::time_point begin, Clock::time_point end) {
    next() = {label, cost, {}, begin, end};
  }
  /// A step as a whole: the span "step <number>" with what there was to do as arguments.
  void add_step(const StepFacts& step, Clock::time_point begin, Clock::time_point end) {
    next() = {{}, {}, step, begin, end};
  }

 private:
  friend class Recorder;
  struct Record {
    Label label;
    Cost cost;
    StepFacts step;  ///< number -1: a launch
    Clock::time_point begin, end;
  };
  static constexpr size_t kBlock = 1024;
  Record& next() {
    const size_t at = count_++ % capacity_;
    if (at / kBlock == blocks_.size()) blocks_.emplace_back(std::make_unique<Record[]>(kBlock));
    return blocks_[at / kBlock][at % kBlock];
  }
  const size_t capacity_;
  size_t count_ = 0;
  std::vector<std::unique_ptr<Record[]>> blocks_;
};

/// All lanes of one trace. Outlives the devices that it is given to.
class Recorder {
 public:
  /// `capacity`: the intervals kept of each lane, at least 1; 120 bytes each, allocated when needed.
  explicit Recorder(size_t capacity = size_t{1} << 18);
  /// The lane's place, the same for the same arguments, for as long as the recorder. Thread safe.
  LaneRecorder& lane(int rank, std::string_view lane);
  /// Everything kept, in nanoseconds since the recorder was made, with the costs that are not zero
  /// as arguments. REQUIRES: the lanes' writers have ended.
  std::vector<telemetry::TraceSpan> spans() const;
  /// Intervals that made room for later ones. REQUIRES: as spans().
  int64_t dropped() const;

 private:
  const size_t capacity_;
  const Clock::time_point zero_;
  mutable std::mutex mutex_;  // guards the map, not what is in the lanes
  std::map<std::pair<int, std::string>, std::unique_ptr<LaneRecorder>> lanes_;
};

}  // namespace hocket::device
