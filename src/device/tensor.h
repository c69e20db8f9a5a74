// Views of device memory: pointer, dtype, extents. No ownership, no arithmetic.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/error.h"
#include "quant/bf16.h"
#include "quant/fp8.h"

namespace hocket::device {

enum class DType : uint8_t { f32, bf16, e4m3, i32, u8, i64, f16, e5m2, e8m0, boolean };
std::string_view name(DType dtype);
int64_t size_of(DType dtype);  ///< bytes of one element

template <class T>
inline constexpr DType kDType = DType::u8;
template <>
inline constexpr DType kDType<float> = DType::f32;
template <>
inline constexpr DType kDType<quant::Bf16> = DType::bf16;
template <>
inline constexpr DType kDType<quant::E4m3> = DType::e4m3;
template <>
inline constexpr DType kDType<int32_t> = DType::i32;

/// Row-major and contiguous; up to 4 extents. With zero elements `data` may be null.
struct TensorView {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<int64_t, 4> shape{};

  TensorView() = default;
  TensorView(void* memory, DType type, std::initializer_list<int64_t> extents);
  bool empty() const { return elements() == 0; }  ///< also true of a default view
  int64_t elements() const;
  int64_t bytes() const { return elements() * size_of(dtype); }
  int64_t dim(int axis) const { return shape[static_cast<size_t>(axis)]; }
  int64_t rows() const { return rank == 0 ? 0 : shape[0]; }
  int64_t row_elements() const;  ///< product of all extents but the first
  /// The data as T. Throws ShapeError if the dtype differs.
  template <class T>
  T* as() const {
    if (kDType<T> != dtype) throw_dtype(kDType<T>);
    return reinterpret_cast<T*>(data);
  }
  /// Rows [begin, end) of the first extent.
  TensorView slice(int64_t begin, int64_t end) const;
  std::string str() const;  ///< "[12, 256] bf16"

 private:
  [[noreturn]] void throw_dtype(DType asked) const;
};

/// Throws ShapeError naming `what`, the view and what was expected, unless dtype and extents match (-1: any extent).
void require(const TensorView& view, DType dtype, std::initializer_list<int64_t> extents, std::string_view what);

}  // namespace hocket::device
