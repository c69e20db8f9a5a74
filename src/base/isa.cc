#include "base/isa.h"

#include <fmt/format.h>

namespace hocket {

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::generic: return "generic";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512_bf16: return "avx512_bf16";
  }
  return "unknown";
}

Isa best_isa() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return Isa::avx512_bf16;
  if (avx512) return Isa::avx512;
  return avx2 ? Isa::avx2 : Isa::generic;
}

Expected<Isa> parse_isa(std::string_view text) {
  const Isa best = best_isa();
  if (text == "auto") return best;
  std::string supported;
  for (Isa isa : {Isa::generic, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (isa > best) break;
    if (text == name(isa)) return isa;
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", name(isa));
  }
  return fail(Code::config, fmt::format("--cpu-isa {}: this processor supports {}. Use one of them or auto.", text, supported));
}

}  // namespace hocket
