// The fields of a completion request: what each takes and where it goes.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "server/completion_request.h"

namespace hocket::server {

enum class Kind : uint8_t {
  real,             ///< a number in [low, high], or (low, high] if `above_low`
  integer,          ///< an integer in [low, high]
  boolean,
  model,            ///< a string
  ignored,          ///< any value: it changes nothing here
  seed,             ///< 64 bits, signed or unsigned; -1: none
  prompt,           ///< a string, a list of strings, a list of token ids, or a list of such lists
  stops,            ///< a string or a list of strings
  stop_ids,         ///< a list of token ids
  stream_options,   ///< an object of booleans
  response_format,  ///< {"type": "text"} only
  only_true,        ///< a boolean whose false is not supported
  unsupported,      ///< null, false, 0, "", [] and {} only
};

struct Field {
  std::string_view name;
  Kind kind;
  double low = 0, high = 0;
  bool above_low = false;
  void (*set_real)(CompletionRequest&, float) = nullptr;
  void (*set_integer)(CompletionRequest&, int64_t) = nullptr;
  void (*set_boolean)(CompletionRequest&, bool) = nullptr;
};

/// Null for a name that is not in the table: such fields are ignored.
const Field* find_field(std::string_view name);

}  // namespace hocket::server
