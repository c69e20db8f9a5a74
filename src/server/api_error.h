// A request that is refused or fails, and its JSON. Source: OpenAI's error object with vLLM's type names; docs/serving.md.
#pragma once
#include <string>
#include <string_view>

namespace hocket::server {

struct ApiError {
  int status = 400;  ///< HTTP status, also `code` in the body
  std::string message;
  std::string param{};  ///< the field at fault; empty: null
};

std::string_view error_type(int status);
/// {"error":{"message":…,"type":…,"param":…,"code":…}}, one line.
std::string error_body(const ApiError& error);

}  // namespace hocket::server
