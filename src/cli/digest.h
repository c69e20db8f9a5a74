// A digest of generated ids, to compare runs.
#pragma once
#include <string>

#include "cli/offline.h"

namespace hocket::cli {

/// SHA-256 in hex over the ids of all completions in order: decimal, separated by spaces, one line a completion.
std::string ids_digest(const std::vector<Completion>& completions);

}  // namespace hocket::cli
