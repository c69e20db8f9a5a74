// Which instruction sets the CPU kernels can use here. Every path gives the same bits.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/error.h"

namespace hocket {

enum class Isa : uint8_t { generic, avx2, avx512, avx512_bf16 };
std::string_view name(Isa isa);
/// The best one that this processor and its operating system support.
Isa best_isa();
/// "auto" or a name of Isa. Fails with the names this processor supports if it does not have the one asked for.
Expected<Isa> parse_isa(std::string_view text);

}  // namespace hocket
