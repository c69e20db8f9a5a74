#include <fmt/format.h>

#include "device/stream.h"

namespace hocket::device {

std::string Label::str() const {
  return layer < 0 ? fmt::format("u{}/{}", ubatch, stage) : fmt::format("u{}/L{}/{}", ubatch, layer, stage);
}

}  // namespace hocket::device
