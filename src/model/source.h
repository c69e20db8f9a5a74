// Where the elements of a weight come from: a checkpoint, or a hash of the tensor's name (dummy weights).
#pragma once
#include <memory>
#include <optional>

#include "model/manifest.h"

namespace hocket::model {

/// A tensor in memory, aligned for its type. `owned` holds it unless `view` points into a mapped file.
struct StoredWeight {
  device::TensorView view;
  std::unique_ptr<std::byte[]> owned;
  std::string_view file = "dummy";  ///< for messages; valid as long as the source
};
/// Memory for a tensor of this type and shape (1 to 4 extents). Not initialised.
StoredWeight allocate_weight(device::DType dtype, std::span<const int64_t> shape);

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// The tensor in its stored type; with `slice`, that index of the first extent and the extents behind it.
  /// The view is valid as long as both the result and the source live. REQUIRES: the manifest was checked.
  virtual StoredWeight read(const TensorSpec& spec, std::optional<int64_t> slice) = 0;
  /// Call when everything was read: fails if what was read cannot be trusted.
  virtual Expected<void> finish() = 0;
};

std::unique_ptr<TensorSource> checkpoint_source(Checkpoint checkpoint);

/// Values that depend on (seed, tensor name, element index) only: equal on every rank and for every sharding. Matrices
/// are nearly N(0, 0.02), norms 1; FP8 codes are uniform without the two NaNs and their scales 0.02/100, because 100 is
/// about the root mean square of uniform codes. The spread keeps logits finite and power draw honest.
std::unique_ptr<TensorSource> dummy_source(uint64_t seed);

/// The values as f32, from F32, BF16, F16 or F8_E8M0, into `out`, view.elements() long.
void widen(const device::TensorView& view, float* out);

}  // namespace hocket::model
