#include "model/source.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/rng.h"

namespace hocket::model {
namespace {

using device::DType;
using device::TensorView;

TensorView view_of(std::byte* memory, DType dtype, std::span<const int64_t> shape) {
  switch (shape.size()) {
    case 1: return {memory, dtype, {shape[0]}};
    case 2: return {memory, dtype, {shape[0], shape[1]}};
    case 3: return {memory, dtype, {shape[0], shape[1], shape[2]}};
    default: throw ShapeError(fmt::format("a weight of shape {}", shape_text(shape)));
  }
}

/// IEEE half precision. Exact.
float half_to_float(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = bits >> 10 & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) return mantissa == 0 ? sign * HUGE_VALF : std::nanf("");
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

class CheckpointSource : public TensorSource {
 public:
  explicit CheckpointSource(Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  StoredWeight read(const TensorSpec& spec, std::optional<int64_t> slice) override {
    const StoredTensor* stored = checkpoint_.find(spec.name);
    if (stored == nullptr || !stored->info->dtype) throw InvariantError(fmt::format("{} was not checked", spec.name));
    std::span<const std::byte> bytes = stored->bytes();
    std::span<const int64_t> shape = spec.shape;
    if (slice) {
      const size_t part = bytes.size() / static_cast<size_t>(shape[0]);
      bytes = bytes.subspan(static_cast<size_t>(*slice) * part, part);
      shape = shape.subspan(1);
    }
    const DType dtype = *stored->info->dtype;
    if (reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<size_t>(size_of(dtype)) == 0) {
      // Read only; a view has no const twin.
      return {view_of(const_cast<std::byte*>(bytes.data()), dtype, shape), nullptr, stored->file->name()};
    }
    StoredWeight copy = allocate_weight(dtype, shape);
    copy.file = stored->file->name();
    std::memcpy(copy.view.data, bytes.data(), bytes.size());
    return copy;
  }

  Expected<void> finish() override { return checkpoint_.check_unchanged(); }

 private:
  Checkpoint checkpoint_;
};

class DummySource : public TensorSource {
 public:
  explicit DummySource(uint64_t seed) : seed_(seed) {}

  StoredWeight read(const TensorSpec& spec, std::optional<int64_t> slice) override {
    std::span<const int64_t> shape = spec.shape;
    if (slice) shape = shape.subspan(1);
    StoredWeight weight = allocate_weight(type_of(spec.role), shape);
    const int64_t count = weight.view.elements();
    fill(weight.view, spec, slice.value_or(0) * count);
    return weight;
  }

  Expected<void> finish() override { return {}; }

 private:
  static DType type_of(Role role) {
    if (role == Role::bf16) return DType::bf16;
    return role == Role::fp8 ? DType::e4m3 : DType::f32;
  }

  /// FNV-1a, 64 bits.
  static uint64_t hash(std::string_view name) {
    uint64_t value = 0xCBF29CE484222325;
    for (char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return value;
  }

  /// 32 random bits for one element; neighbours share a Philox block of four.
  uint32_t bits(uint64_t stream, int64_t element) {
    const auto block = static_cast<uint64_t>(element) / 4;
    if (stream != cached_stream_ || block != cached_block_) {
      cached_stream_ = stream;
      cached_block_ = block;
      cached_ = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                        static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                       {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    }
    return cached_[static_cast<size_t>(element % 4)];
  }

  /// The sum of four uniform bytes is nearly normal: mean 510, standard deviation 147.8.
  static float normal(uint32_t random) {
    const uint32_t sum = (random & 0xFF) + (random >> 8 & 0xFF) + (random >> 16 & 0xFF) + (random >> 24);
    return (static_cast<float>(sum) - 510.0F) * (0.02F / 147.8F);
  }

  static quant::E4m3 code(uint32_t random) {
    const auto byte = static_cast<uint8_t>(random);
    return {is_nan(quant::E4m3{byte}) ? static_cast<uint8_t>(byte - 1) : byte};
  }

  void fill(const TensorView& view, const TensorSpec& spec, int64_t first) {
    const uint64_t stream = hash(spec.name);
    const int64_t count = view.elements();
    if (spec.role == Role::fp8) {
      auto* out = view.as<quant::E4m3>();
      for (int64_t i = 0; i < count; ++i) out[i] = code(bits(stream, first + i));
    } else if (spec.role == Role::bf16) {
      auto* out = view.as<quant::Bf16>();
      for (int64_t i = 0; i < count; ++i) out[i] = quant::to_bf16(normal(bits(stream, first + i)));
    } else if (spec.role == Role::scale) {
      std::fill_n(view.as<float>(), count, 0.02F / 100);
    } else if (view.rank == 1) {
      std::fill_n(view.as<float>(), count, 1.0F);  // norms
    } else {
      auto* out = view.as<float>();
      for (int64_t i = 0; i < count; ++i) out[i] = normal(bits(stream, first + i));
    }
  }

  uint64_t seed_;
  uint64_t cached_stream_ = 0, cached_block_ = ~uint64_t{0};
  std::array<uint32_t, 4> cached_{};
};

}  // namespace

StoredWeight allocate_weight(DType dtype, std::span<const int64_t> shape) {
  StoredWeight weight;
  weight.view = view_of(nullptr, dtype, shape);
  weight.owned.reset(new std::byte[static_cast<size_t>(weight.view.bytes())]);
  weight.view.data = weight.owned.get();
  return weight;
}

std::unique_ptr<TensorSource> checkpoint_source(Checkpoint checkpoint) {
  return std::make_unique<CheckpointSource>(std::move(checkpoint));
}
std::unique_ptr<TensorSource> dummy_source(uint64_t seed) { return std::make_unique<DummySource>(seed); }

void widen(const TensorView& view, float* out) {
  const int64_t count = view.elements();
  switch (view.dtype) {
    case DType::f32: std::copy_n(view.as<float>(), count, out); return;
    case DType::bf16:
      std::transform(view.as<quant::Bf16>(), view.as<quant::Bf16>() + count, out,
                     [](quant::Bf16 value) { return to_float(value); });
      return;
    case DType::f16: {
      const auto* halves = reinterpret_cast<const uint16_t*>(view.data);
      std::transform(halves, halves + count, out, half_to_float);
      return;
    }
    case DType::e8m0: {  // 2^(code - 127), 255 is NaN. Source: OCP microscaling formats 1.0, 5.4.1
      std::transform(view.data, view.data + count, out, [](std::byte code) {
        const int exponent = std::to_integer<int>(code);
        return exponent == 255 ? std::nanf("") : std::ldexp(1.0F, exponent - 127);
      });
      return;
    }
    default: throw ShapeError(fmt::format("{} cannot be widened to f32", view.str()));
  }
}

}  // namespace hocket::model
