#include "device/tensor.h"

#include <fmt/format.h>

namespace hocket::device {

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::e4m3: return "e4m3";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
    case DType::i64: return "i64";
    case DType::f16: return "f16";
    case DType::e5m2: return "e5m2";
    case DType::e8m0: return "e8m0";
    case DType::boolean: return "bool";
  }
  return "unknown";
}

int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    default: return 1;
  }
}

TensorView::TensorView(void* memory, DType type, std::initializer_list<int64_t> extents)
    : data(static_cast<std::byte*>(memory)), dtype(type), rank(static_cast<int>(extents.size())) {
  if (extents.size() > shape.size()) throw ShapeError(fmt::format("a tensor of rank {}: at most 4", extents.size()));
  size_t axis = 0;
  for (int64_t extent : extents) {
    if (extent < 0) throw ShapeError(fmt::format("a tensor with extent {}", extent));
    shape[axis++] = extent;
  }
}

int64_t TensorView::elements() const { return rank == 0 ? 0 : shape[0] * row_elements(); }

int64_t TensorView::row_elements() const {
  int64_t product = 1;
  for (int axis = 1; axis < rank; ++axis) product *= dim(axis);
  return product;
}

TensorView TensorView::slice(int64_t begin, int64_t end) const {
  if (begin < 0 || end < begin || end > rows()) {
    throw ShapeError(fmt::format("rows [{}, {}) of {}", begin, end, str()));
  }
  TensorView part = *this;
  part.shape[0] = end - begin;
  if (data != nullptr) part.data = data + begin * row_elements() * size_of(dtype);
  return part;
}

std::string TensorView::str() const {
  std::string text = "[";
  for (int axis = 0; axis < rank; ++axis) text += fmt::format("{}{}", axis == 0 ? "" : ", ", dim(axis));
  return text + fmt::format("] {}", name(dtype));
}

void TensorView::throw_dtype(DType asked) const {
  throw ShapeError(fmt::format("{} read as {}", str(), name(asked)));
}

void require(const TensorView& view, DType dtype, std::initializer_list<int64_t> extents, std::string_view what) {
  bool good = view.dtype == dtype && view.rank == static_cast<int>(extents.size());
  int axis = 0;
  for (int64_t extent : extents) {
    good = good && (extent < 0 || view.dim(axis) == extent);
    ++axis;
  }
  if (good) return;
  std::string wanted;
  for (int64_t extent : extents) {
    wanted += fmt::format("{}{}", wanted.empty() ? "" : ", ", extent < 0 ? "any" : std::to_string(extent));
  }
  throw ShapeError(fmt::format("{}: {} where [{}] {} is expected", what, view.str(), wanted, name(dtype)));
}

}  // namespace hocket::device
