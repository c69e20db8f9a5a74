// Any bytes as a safetensors file: refused or listed, never a crash, and nothing outside the file is read.
#include <cstdlib>

#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto tensors = hocket::model::parse_header(file, "fuzz");
  if (!tensors) return 0;
  int64_t end = 0;  // an accepted header covers the data without hole, overlap or tail
  for (const auto& tensor : *tensors) {
    if (tensor.end < tensor.begin || (end != 0 && tensor.begin != end)) std::abort();
    end = tensor.end;
  }
  if (!tensors->empty() && end != static_cast<int64_t>(size)) std::abort();
  return 0;
}
