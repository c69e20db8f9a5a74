#include "server/context.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/rng.h"

namespace hocket::server {

std::array<uint32_t, 4> Context::random() {
  const uint64_t ticket = tickets.fetch_add(1, std::memory_order_relaxed);
  return philox({static_cast<uint32_t>(ticket), static_cast<uint32_t>(ticket >> 32), 0, 0}, random_key);
}

std::string Context::random_id() {
  const auto r = random();
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", r[0], r[1], r[2], r[3]);
}

uint64_t Context::random_seed() {
  const auto r = random();
  return uint64_t{r[0]} << 32 | r[1];
}

bool Context::serves(std::string_view model) const {
  return std::find(options.served_names.begin(), options.served_names.end(), model) != options.served_names.end();
}

}  // namespace hocket::server
