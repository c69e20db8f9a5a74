#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "cli/options_table.h"

namespace hocket::cli {
namespace {

class Reader {
 public:
  Reader(const std::filesystem::path& file, const FindFlag& find, const Suggest& suggest, std::vector<std::string>& errors)
      : file_(file.filename().string()), find_(find), suggest_(suggest), errors_(errors) {}

  void read(const YAML::Node& root) {
    if (root.IsNull()) return;  // an empty file
    if (!root.IsMap()) return refuse(root.Mark(), "expected lines of `key: value`.");
    for (const auto& entry : root) {
      if (!entry.first.IsScalar()) {
        refuse(entry.first.Mark(), "a key must be a name.");
      } else {
        read_entry(entry.first, entry.second);
      }
    }
  }
  void refuse(const YAML::Mark& mark, std::string_view what) {
    errors_.push_back(fmt::format("{}:{}: {}", file_, mark.line + 1, what));
  }
  std::vector<Given> take() { return std::move(given_); }

 private:
  void read_entry(const YAML::Node& key, const YAML::Node& value) {
    std::string name = key.Scalar();
    std::replace(name.begin(), name.end(), '_', '-');
    const Flag* flag = find_(name);
    if (flag != nullptr && flag->name == "config") return refuse(key.Mark(), "config: a file cannot name another one.");
    if (flag == nullptr) {
      return refuse(key.Mark(), fmt::format("unknown key \"{}\".{}", key.Scalar(), suggest_(key.Scalar())));
    }
    if (!seen_.insert(flag).second) return refuse(key.Mark(), fmt::format("the key \"{}\" is there twice.", key.Scalar()));
    if (value.IsScalar()) return add(*flag, key, value);
    if (!value.IsSequence() || flag->takes != Takes::values) {
      return refuse(key.Mark(), fmt::format("{}: expected one value{}.", key.Scalar(),
                                            flag->takes == Takes::values ? " or a list" : ""));
    }
    for (const YAML::Node& element : value) {
      if (!element.IsScalar()) return refuse(key.Mark(), fmt::format("{}: expected a list of values.", key.Scalar()));
      add(*flag, key, element);
    }
  }
  void add(const Flag& flag, const YAML::Node& key, const YAML::Node& value) {
    given_.push_back({&flag, value.Scalar(),
                      fmt::format("{}:{}: {} {}", file_, key.Mark().line + 1, key.Scalar(), value.Scalar())});
  }

  std::string file_;
  const FindFlag& find_;
  const Suggest& suggest_;
  std::vector<std::string>& errors_;
  std::vector<Given> given_;
  std::set<const Flag*> seen_;
};

}  // namespace

std::vector<Given> read_yaml(const std::filesystem::path& file, const FindFlag& find, const Suggest& suggest,
                             std::vector<std::string>& errors) {
  Reader reader(file, find, suggest, errors);
  try {
    reader.read(YAML::LoadFile(file.string()));
  } catch (const YAML::BadFile&) {
    errors.push_back(fmt::format("--config {}: the file cannot be read.", file.string()));
  } catch (const YAML::Exception& error) {
    reader.refuse(error.mark, fmt::format("not YAML: {}.", error.msg));
  }
  return reader.take();
}

}  // namespace hocket::cli
