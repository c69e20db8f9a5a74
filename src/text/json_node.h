// A JSON value that knows its path, so that errors can name what they are about.
#pragma once
#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::text {

/// All functions throw Error (bad_input) that begins with the path. A view of a parsed document.
class JsonNode {
 public:
  JsonNode(simdjson::dom::element value, std::string path)
      : value_(value), path_(std::move(path)) {}
  [[noreturn]] void refuse(std::string_view why) const;

  JsonNode at(std::string_view key) const;                   ///< refuses if missing
  std::optional<JsonNode> find(std::string_view key) const;  ///< nothing if missing or null
  std::vector<JsonNode> items() const;                       ///< of an array
  std::string_view string() const;
  bool boolean() const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  int64_t integer() const;
  simdjson::dom::array array() const;
  simdjson::dom::object object() const;

  bool is_null() const { return value_.is_null(); }
  bool is_string() const { return value_.is_string(); }
  std::string_view type() const { return at("type").string(); }
  simdjson::dom::element value() const { return value_; }
  const std::string& path() const { return path_; }

 private:
  simdjson::dom::element value_;
  std::string path_;
};

}  // namespace hocket::text
