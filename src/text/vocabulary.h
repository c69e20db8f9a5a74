// Token contents by id, and ids by content.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::text {

/// Strings by id, in one block of memory. Ids may have gaps.
class TokenTable {
 public:
  /// Ids are limited so that one wild id in a file cannot claim gigabytes. Known vocabularies stay
  /// below 2^18.
  static constexpr int32_t kIdLimit = 1 << 22;
  /// REQUIRES: 0 <= id < kIdLimit; not set before.
  void set(int32_t id, std::string_view content);
  bool contains(int32_t id) const;
  /// Empty for ids that were not set.
  std::string_view operator[](int32_t id) const;
  int32_t size() const { return static_cast<int32_t>(slots_.size()); }  ///< largest id + 1

 private:
  struct Slot {
    size_t begin = 0;
    int64_t length = -1;
  };
  std::string text_;
  std::vector<Slot> slots_;
};

/// Reading from several threads is safe.
class Vocabulary {
 public:
  enum class Added : uint8_t { yes, id_taken, content_taken };
  /// REQUIRES: 0 <= id < TokenTable::kIdLimit.
  Added add(int32_t id, std::string_view content);
  void reserve(size_t tokens);
  int32_t find(std::string_view content) const;  ///< -1 if there is none
  const TokenTable& tokens() const { return tokens_; }

 private:
  struct Slot {
    uint32_t tag = 0;  // part of the hash, so that few contents are compared in vain
    int32_t id = -1;   // -1: free
  };
  /// Index of the slot that holds `content`, or of the free one where it belongs.
  size_t locate(std::string_view content, size_t hash) const;
  TokenTable tokens_;
  std::vector<Slot> slots_;  // open addressing
  size_t count_ = 0;
};

}  // namespace hocket::text
