// A timeline as text: a line a lane, a box a stage. A changed schedule is a readable diff.
#pragma once
#include <string>

#include "device/sim/timeline.h"

namespace hocket::sim {

struct DrawOptions {
  device::sim::Nanos begin{0}, end{0};  ///< what is shown; end 0: all
  int columns = 96;
};
/// Lanes compute, comm and link, those that have spans. Boxes: "att0" attention of ubatch 0 up to
/// what is dispatched, "exp" experts, "sha" shared experts, "dis" dispatch, "com" combine, "fin"
/// what follows it. Last line: the width of a column.
std::string draw(const device::sim::Timeline& timeline, const DrawOptions& options = {});

}  // namespace hocket::sim
