#include "text/json_node.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace hocket::text {

namespace {

std::string_view kind(simdjson::dom::element value) {
  using simdjson::dom::element_type;
  switch (value.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "a number";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "unknown";
}

template <class T>
T expect(const JsonNode& node, simdjson::simdjson_result<T> result, std::string_view wanted) {
  T value;
  if (std::move(result).get(value) != simdjson::SUCCESS) {
    node.refuse(fmt::format("is {} and should be {}", kind(node.value()), wanted));
  }
  return value;
}

}  // namespace

void JsonNode::refuse(std::string_view why) const {
  throw Error(Code::bad_input, path_.empty() ? std::string(why) : fmt::format("{} {}", path_, why));
}

JsonNode JsonNode::at(std::string_view key) const {
  simdjson::dom::element found;
  if (object().at_key(key).get(found) != simdjson::SUCCESS)
    refuse(fmt::format("has no \"{}\"", key));
  return {found, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  simdjson::dom::element found;
  if (object().at_key(key).get(found) != simdjson::SUCCESS || found.is_null()) return std::nullopt;
  return JsonNode(found, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

std::vector<JsonNode> JsonNode::items() const {
  std::vector<JsonNode> nodes;
  for (const simdjson::dom::element item : array()) {
    nodes.emplace_back(item, fmt::format("{}[{}]", path_, nodes.size()));
  }
  return nodes;
}

std::string_view JsonNode::string() const { return expect(*this, value_.get_string(), "a string"); }
bool JsonNode::boolean() const { return expect(*this, value_.get_bool(), "true or false"); }
int64_t JsonNode::integer() const { return expect(*this, value_.get_int64(), "an integer"); }
simdjson::dom::array JsonNode::array() const {
  return expect(*this, value_.get_array(), "an array");
}
simdjson::dom::object JsonNode::object() const {
  return expect(*this, value_.get_object(), "an object");
}

bool JsonNode::boolean_or(std::string_view key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->boolean() : otherwise;
}

}  // namespace hocket::text
