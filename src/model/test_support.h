// For tests only: temporary folders, and safetensors files written independently of the reader.
#pragma once
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hocket::model::testing {

/// Removed with everything in it when it goes.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hocket-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The bytes of a safetensors file with this header text and data.
inline std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

struct NamedTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::string data;
};

/// A whole file; tensors one behind the other. `padding` bytes of the header set the alignment of the data.
inline std::string file_of(const std::vector<NamedTensor>& tensors, const std::string& padding = "") {
  std::string header = "{", data;
  for (const NamedTensor& tensor : tensors) {
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", header.size() == 1 ? "" : ",",
                          tensor.name, tensor.dtype, fmt::join(tensor.shape, ","), data.size(),
                          data.size() + tensor.data.size());
    data += tensor.data;
  }
  return file_of(header + "}" + padding, data);
}

}  // namespace hocket::model::testing
