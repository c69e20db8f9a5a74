#include "device/recorder.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::device {
namespace {

std::vector<std::pair<std::string, int64_t>> arguments(const Cost& cost) {
  std::vector<std::pair<std::string, int64_t>> out;
  if (cost.flops > 0) out.emplace_back("flops", static_cast<int64_t>(cost.flops));
  if (cost.memory_bytes > 0) {
    out.emplace_back("memory_bytes", static_cast<int64_t>(cost.memory_bytes));
  }
  if (cost.wire_bytes > 0) out.emplace_back("wire_bytes", static_cast<int64_t>(cost.wire_bytes));
  return out;
}

std::vector<std::pair<std::string, int64_t>> arguments(const StepFacts& step) {
  return {{"tokens", step.tokens},
          {"attention_pairs", step.attention_pairs},
          {"uniform_query", step.uniform_query},
          {"ubatches", step.ubatches}};
}

}  // namespace

Recorder::Recorder(size_t capacity)
    : capacity_(std::max<size_t>(1, capacity)), zero_(Clock::now()) {}

LaneRecorder& Recorder::lane(int rank, std::string_view lane) {
  const std::lock_guard lock(mutex_);
  auto& place = lanes_[{rank, std::string(lane)}];
  if (!place) place = std::make_unique<LaneRecorder>(capacity_);
  return *place;
}

std::vector<telemetry::TraceSpan> Recorder::spans() const {
  const std::lock_guard lock(mutex_);
  const auto since_start = [this](Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time - zero_).count();
  };
  std::vector<telemetry::TraceSpan> out;
  for (const auto& [key, lane] : lanes_) {
    const size_t kept = std::min(lane->count_, capacity_);
    for (size_t i = lane->count_ - kept; i < lane->count_; ++i) {
      const size_t at = i % capacity_;
      const auto& record =
          lane->blocks_[at / LaneRecorder::kBlock][at % LaneRecorder::kBlock];
      const bool step = record.step.number >= 0;
      out.push_back({key.first, key.second,
                     step ? fmt::format("step {}", record.step.number) : record.label.str(),
                     since_start(record.begin), since_start(record.end),
                     step ? arguments(record.step) : arguments(record.cost)});
    }
  }
  return out;
}

int64_t Recorder::dropped() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [key, lane] : lanes_) {
    sum += static_cast<int64_t>(lane->count_ - std::min(lane->count_, capacity_));
  }
  return sum;
}

}  // namespace hocket::device
