// The first lines of a response. Source: RFC 9112.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hocket::server {

enum class Persistence : uint8_t { close, keep_alive, keep_alive_http10 };

struct ResponseHead {
  int status = 200;
  std::string_view content_type;          ///< empty: none
  std::optional<size_t> content_length;   ///< none: chunked, or up to the end of the connection
  bool chunked = false;
  Persistence persistence = Persistence::keep_alive;
  std::string_view request_id;
};
/// With the empty line at its end. `unix_time` is for the Date field.
std::string response_head(const ResponseHead& head, const std::vector<std::pair<std::string, std::string>>& more,
                          int64_t unix_time);
/// `data` as one chunk of a chunked body. REQUIRES: not empty.
void append_chunk(std::string& out, std::string_view data);

}  // namespace hocket::server
