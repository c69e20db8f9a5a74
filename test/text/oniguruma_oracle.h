// Oniguruma behind a small interface: its header and <regex.h>, which GoogleTest includes, define
// the same struct.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hocket::text {

class OnigurumaOracle {
 public:
  using Spans = std::vector<std::pair<size_t, size_t>>;
  explicit OnigurumaOracle(const std::string& pattern);
  ~OnigurumaOracle();
  /// Begin and end of all matches, from left to right. REQUIRES: the pattern matches no empty text.
  Spans matches(const std::string& text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hocket::text
