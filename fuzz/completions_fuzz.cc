// Any bytes as the body of POST /v1/completions: a request or a refusal whose JSON is UTF-8, never a crash.
#include <cstdint>
#include <cstdlib>

#include "server/completion_request.h"
#include "server/json_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hocket::server;
  CompletionLimits limits;
  limits.vocab = 1024;
  const auto request = parse_completion({reinterpret_cast<const char*>(data), size}, limits);
  if (!request) {
    if (request.error().status != 400 || !is_utf8(error_body(request.error()))) std::abort();
    return 0;
  }
  for (const auto& prompt : request->prompts) {
    const auto* ids = std::get_if<std::vector<int32_t>>(&prompt);
    if (ids == nullptr) continue;
    for (int32_t id : *ids) {
      if (id < 0 || id >= limits.vocab) std::abort();
    }
  }
  return 0;
}
