#include "cli/commands.h"
#include "cli/virtual_setup.h"

namespace hocket::cli {

int tune(const Options&) { return 2; }

}  // namespace hocket::cli
