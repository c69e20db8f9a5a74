#include "server/http_head.h"

#include <ctime>

#include <fmt/format.h>

namespace hocket::server {
namespace {

std::string_view reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Internal Server Error";
  }
}

/// As in "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale.
std::string http_date(int64_t unix_time) {
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t time = unix_time;
  std::tm t{};
  gmtime_r(&time, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[t.tm_wday], t.tm_mday, kMonths[t.tm_mon],
                     t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

}  // namespace

std::string response_head(const ResponseHead& head, const std::vector<std::pair<std::string, std::string>>& more,
                          int64_t unix_time) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: hocket\r\nDate: {}\r\n", head.status, reason(head.status),
                                http_date(unix_time));
  if (!head.content_type.empty()) out += fmt::format("Content-Type: {}\r\n", head.content_type);
  if (head.content_length) out += fmt::format("Content-Length: {}\r\n", *head.content_length);
  if (head.chunked) out += "Transfer-Encoding: chunked\r\n";
  if (head.persistence == Persistence::close) out += "Connection: close\r\n";
  if (head.persistence == Persistence::keep_alive_http10) out += "Connection: keep-alive\r\n";
  if (!head.request_id.empty()) out += fmt::format("X-Request-Id: {}\r\n", head.request_id);
  for (const auto& [name, value] : more) out += fmt::format("{}: {}\r\n", name, value);
  return out + "\r\n";
}

void append_chunk(std::string& out, std::string_view data) {
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", data.size());
  out += data;
  out += "\r\n";
}

}  // namespace hocket::server
