// How ops spread independent rows over threads.
#pragma once
#include <algorithm>

#include "device/stream.h"

namespace hocket::ops {

/// Elements that are worth an item of their own: about ten microseconds of row work.
inline constexpr int64_t kItemElements = 16384;

/// Calls body(begin, end) for consecutive blocks of rows, at most `most` rows each. A single block
/// runs right here.
inline void for_row_blocks(device::Parallel& threads, int64_t rows, int64_t block,
                           FunctionRef<void(int64_t begin, int64_t end)> body) {
  const int64_t count = (rows + block - 1) / block;
  if (count <= 1 || threads.width() == 1) {
    if (rows > 0) body(0, rows);
    return;
  }
  threads.run(
      count, [&](int64_t index, int) { body(index * block, std::min(rows, (index + 1) * block)); });
}

/// The same with blocks of about kItemElements, for kernels that touch `row_elements` a row.
inline void for_rows(device::Parallel& threads, int64_t rows, int64_t row_elements,
                     FunctionRef<void(int64_t begin, int64_t end)> body) {
  for_row_blocks(threads, rows,
                 std::max<int64_t>(1, kItemElements / std::max<int64_t>(1, row_elements)), body);
}

/// Throws Error(internal) unless 0 <= id < limit: an index tensor is wrong.
void require_index(int32_t id, int64_t limit, std::string_view what);

}  // namespace hocket::ops
