// A safetensors file through mmap, with every rule of the format checked before a tensor can be asked for.
// Not here: which tensors a model needs (manifest), how they reach the kernels (weights).
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/tensor.h"

namespace hocket::model {

/// One entry of the header. The bytes [begin, end) are positions in the file; they may have any alignment.
struct TensorInfo {
  std::string name;
  std::string_view stored_type;               ///< as the file spells it: "F8_E4M3"
  std::optional<device::DType> dtype;         ///< empty: a known type that nothing here computes with
  std::vector<int64_t> shape;                 ///< [] is a scalar, one element
  int64_t begin = 0, end = 0;
  std::string str() const;                    ///< "[12, 256] BF16"
};

/// Text of a file, safe in a one-line message: control characters replaced, long text cut, in quotes.
std::string quote(std::string_view text);
/// "[12, 256]"
std::string shape_text(std::span<const int64_t> shape);

/// Checks the whole header against the file's size and lists its tensors by position: no hole, overlap or tail, no
/// duplicate name, no number that does not fit. Fails with one line that names `file_name`, the tensor and the byte.
/// `file` is the whole file; only its header is read.
/// Source: github.com/huggingface/safetensors README, "Format".
Expected<std::vector<TensorInfo>> parse_header(std::span<const std::byte> file, std::string_view file_name);

/// A mapped file. Its tensors and their bytes live as long as the object. Reading is thread safe.
class SafetensorsFile {
 public:
  /// Maps and checks `path`. Fails as parse_header(), or if the file cannot be read.
  static Expected<SafetensorsFile> open(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();
  const std::string& name() const { return name_; }  ///< file name without folders
  std::span<const TensorInfo> tensors() const { return tensors_; }
  std::span<const std::byte> bytes(const TensorInfo& tensor) const {
    return map_.subspan(static_cast<size_t>(tensor.begin), static_cast<size_t>(tensor.end - tensor.begin));
  }
  /// Fails if the file has another size than when it was opened: what was read since cannot be trusted.
  Expected<void> check_unchanged() const;

 private:
  SafetensorsFile(std::string name, int descriptor) : name_(std::move(name)), descriptor_(descriptor) {}
  std::string name_;
  int descriptor_ = -1;
  std::span<const std::byte> map_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace hocket::model
