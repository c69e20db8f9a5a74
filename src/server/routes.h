// Which path and method is what, and the answers that need no inference. No sockets.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "server/context.h"

namespace hocket::server {

struct Reply {
  int status = 200;
  std::string content_type, body;
  std::vector<std::pair<std::string, std::string>> headers{};
};
Reply error_reply(const ApiError& error);

struct Routed {
  std::string_view handler;            ///< label of the metrics: the route, or "other"
  std::optional<Reply> reply{};        ///< none: POST /v1/completions, to be answered by the engine
};

/// `target` as in the request line. Errors are replies too.
Routed route(Context& context, std::string_view method, std::string_view target);

/// Refuses a completion that cannot be taken now: draining, failed, or too many waiting (429).
std::optional<ApiError> refuse_now(const Context& context, int64_t sequences);

}  // namespace hocket::server
