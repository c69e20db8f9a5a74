// What --help prints, from the table of flags.
#pragma once
#include <string>
#include <string_view>

#include "cli/options.h"

namespace hocket::cli {

std::string general_help();
/// `words`: the command as typed, such as "bench throughput".
std::string command_help(Verb verb, std::string_view words);

}  // namespace hocket::cli
