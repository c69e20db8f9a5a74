#include "server/api_error.h"

#include "server/json_text.h"

namespace hocket::server {

std::string_view error_type(int status) {
  switch (status) {
    case 401: return "AuthenticationError";
    case 404: return "NotFoundError";
    case 405: return "MethodNotAllowedError";
    case 408: return "RequestTimeout";
    case 413: return "RequestTooLarge";
    case 415: return "UnsupportedMediaType";
    case 429: return "RateLimitError";
    case 431: return "HeaderTooLarge";
    case 500: return "InternalServerError";
    case 503: return "ServiceUnavailableError";
    case 504: return "GatewayTimeoutError";
    default: return "BadRequestError";
  }
}

std::string error_body(const ApiError& error) {
  std::string body = "{\"error\":{\"message\":";
  append_json_string(body, error.message);
  body += ",\"type\":\"";
  body += error_type(error.status);
  body += "\",\"param\":";
  error.param.empty() ? static_cast<void>(body += "null") : append_json_string(body, error.param);
  body += ",\"code\":" + std::to_string(error.status) + "}}";
  return body;
}

}  // namespace hocket::server
