// Cost tables as files: written by `hocket bench calibrate`, read by --cost-table.
#pragma once
#include <filesystem>
#include <string>

#include "base/error.h"
#include "dbo/predict.h"

namespace hocket::sim {

/// What a table was measured on. Costs of another machine, model or layout would mislead, so they are refused, not scaled.
struct CostOrigin {
  std::string device;  ///< "cpu avx512_bf16, 2 threads"
  std::string model;   ///< the folder's name
  int ranks = 0;
  bool operator==(const CostOrigin&) const = default;
};

struct CostFile {
  CostOrigin origin;
  std::string measured;  ///< a date
  dbo::CostTable table;
};

/// JSON, "format": 1; counts and microseconds as pairs. The same table gives the same bytes.
std::string cost_json(const CostFile& file);
/// Fails with one line that names the file and what is wrong: (missing) it cannot be read, (bad_input) it is no such JSON.
Expected<CostFile> read_cost_file(const std::filesystem::path& path);

}  // namespace hocket::sim
