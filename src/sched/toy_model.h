// For tests: a model so small that its K/V can be checked. The K/V of a position is a hash of its
// token and of the K/V before it, read through the block table as attention would; the next token
// is a function of the last K/V. So a wrong, missing or stale block changes what is generated. Not
// used outside tests.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dbo/plan.h"

namespace hocket::sched {

class ToyModel {
 public:
  ToyModel(int64_t blocks, int64_t block_size, int32_t vocabulary)
      : slots_(blocks * block_size), block_size_(block_size), vocabulary_(vocabulary) {}

  struct RowResult {
    std::optional<int32_t> token;  // if the row samples
    int64_t first_wrong = -1;      // the first computed position whose K/V is not that of `tokens`
    int32_t writer = -1;           // the last row of this step that wrote K/V which this row read
    int64_t writer_tokens = 0;     // and how many of its new tokens that took
  };

  void begin_step() { ++step_; }

  /// Runs row `index` of a plan behind all rows before it. `tokens`: all that its request knows.
  RowResult run(const dbo::PlanRow& row, int32_t index, std::span<const int32_t> tokens) {
    RowResult result;
    uint64_t truth = 0, value = 0;
    for (int64_t p = 0; p < row.computed; ++p) {
      const Slot& slot = at(row, p);
      truth = extend(truth, tokens[p]);
      value = slot.value;
      if (value != truth && result.first_wrong < 0) result.first_wrong = p;
      if (slot.step != step_) continue;
      if (slot.row == result.writer) {
        result.writer_tokens = std::max(result.writer_tokens, slot.offset + 1);
      } else if (slot.row > result.writer) {
        result.writer = slot.row;
        result.writer_tokens = slot.offset + 1;
      }
    }
    for (int64_t i = 0; i < row.query; ++i) {
      value = extend(value, row.tokens[i]);
      at(row, row.computed + i) = {value, step_, index, i};
    }
    if (row.samples) result.token = sample(value);
    return result;
  }

  /// What a failed step leaves where `row` wrote.
  void spoil(const dbo::PlanRow& row) {
    for (int64_t i = 0; i < row.query; ++i) at(row, row.computed + i).value = 0xBAD;
  }

  /// What `prompt` goes on with, computed without a cache.
  std::vector<int32_t> continuation(std::span<const int32_t> prompt, int64_t count) const {
    uint64_t value = 0;
    for (const int32_t token : prompt) value = extend(value, token);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(sample(value));
      value = extend(value, tokens.back());
    }
    return tokens;
  }

 private:
  struct Slot {
    uint64_t value = 0xBAD;
    int64_t step = -1;
    int32_t row = -1;
    int64_t offset = 0;
  };

  Slot& at(const dbo::PlanRow& row, int64_t position) {
    return slots_[row.blocks[position / block_size_] * block_size_ + position % block_size_];
  }
  static uint64_t extend(uint64_t before, int32_t token) {
    const uint64_t mixed = (before ^ (static_cast<uint64_t>(token) + 0x51ED27)) * 0x100000001B3;
    return mixed ^ (mixed >> 29) ^ (before << 7);
  }
  int32_t sample(uint64_t value) const {
    return static_cast<int32_t>((value * 0x9E3779B97F4A7C15 >> 33) % vocabulary_);
  }

  std::vector<Slot> slots_;
  int64_t block_size_;
  int32_t vocabulary_;
  int64_t step_ = 0;
};

}  // namespace hocket::sched
