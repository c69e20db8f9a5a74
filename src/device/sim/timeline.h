// What ran when, on a virtual clock.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "device/stream.h"

namespace hocket::device::sim {

using Nanos = std::chrono::nanoseconds;  ///< also a point in time: since the device was made

struct Span {
  std::string lane;  ///< of the stream
  std::string name;  ///< Label::str()
  Nanos begin{}, end{};
  Nanos length() const { return end - begin; }
};
/// How long both run; zero if they do not meet.
Nanos overlap(const Span& a, const Span& b);

class Timeline {
 public:
  void add(Span span) { spans_.push_back(std::move(span)); }
  const std::vector<Span>& spans() const { return spans_; }  ///< in the order of their launches
  /// The first span of this name. Throws InvariantError if there is none.
  const Span& at(std::string_view name) const;
  Nanos end() const;                        ///< of the last span
  Nanos busy(std::string_view lane) const;  ///< sum of the lane's spans

 private:
  std::vector<Span> spans_;
};

}  // namespace hocket::device::sim
