#include "base/error.h"

namespace hocket {

std::string_view name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::capacity: return "capacity";
    case Code::bad_id: return "bad_id";
    case Code::timeout: return "timeout";
    case Code::peer_lost: return "peer_lost";
    case Code::epoch: return "epoch";
    case Code::aborted: return "aborted";
    case Code::config: return "config";
    case Code::bad_input: return "bad_input";
    case Code::missing: return "missing";
    case Code::internal: return "internal";
  }
  return "unknown";
}

}  // namespace hocket
