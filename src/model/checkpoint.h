// The weight files of a Hugging Face folder: one safetensors file, or shards behind an index.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/safetensors.h"

namespace hocket::model {

/// A tensor and the file that holds it.
struct StoredTensor {
  const TensorInfo* info = nullptr;
  const SafetensorsFile* file = nullptr;
  std::span<const std::byte> bytes() const { return file->bytes(*info); }
};

/// All tensors of a folder by name. Opening reads headers only; a page of data is touched when bytes() are read.
class Checkpoint {
 public:
  /// Reads model.safetensors.index.json if it is there, else model.safetensors. Fails with one line: no weights, only
  /// PyTorch pickles, a shard missing or broken, a listed tensor not in its shard or in two, a name that is not plain.
  static Expected<Checkpoint> open(const std::filesystem::path& folder);
  const StoredTensor* find(const std::string& name) const;  ///< null if there is none
  const std::unordered_map<std::string, StoredTensor>& tensors() const { return tensors_; }
  Expected<void> check_unchanged() const;  ///< of every file

 private:
  Expected<void> add(const std::filesystem::path& path);
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::unordered_map<std::string, StoredTensor> tensors_;
};

}  // namespace hocket::model
