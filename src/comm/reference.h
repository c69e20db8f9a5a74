// What an exchange must deliver, computed from everybody's inputs on one thread and with none of the back ends' code.
// Written from the data rules of docs/all2all.md; slow on purpose. Tests compare bits against it.
#pragma once
#include <span>
#include <vector>

#include "comm/all2all.h"

namespace hocket::comm {

/// One rank's input of a round.
struct ReferenceInput {
  int64_t tokens = 0;
  std::vector<quant::Bf16> x{}; ///< [tokens, hidden]
  std::vector<int32_t> expert{};  ///< [tokens, top_k]
  std::vector<float> weight{};    ///< [tokens, top_k]
};

/// A row as it is delivered: bf16 values, or codes as bf16 values with a scale per 128 columns.
struct ReferenceRow {
  std::vector<quant::Bf16> values;
  std::vector<float> scales;
};
ReferenceRow reference_row(const Config& config, std::span<const quant::Bf16> x);

/// What `rank` receives. A rank whose input breaks a limit counts as having no tokens.
struct ReferenceReceived {
  std::vector<int32_t> counts, offsets;
  std::vector<ReferenceRow> rows;  ///< [offsets.back()]; empty rows are padding
};
ReferenceReceived reference_dispatch(const Config& config, int rank, std::span<const ReferenceInput> inputs);

/// out [tokens, hidden] of one rank, given what the experts make of a row.
using ReferenceExpert = std::vector<quant::Bf16> (*)(int expert, const ReferenceRow& row);
std::vector<float> reference_combine(const Config& config, const ReferenceInput& input, ReferenceExpert expert);

}  // namespace hocket::comm
