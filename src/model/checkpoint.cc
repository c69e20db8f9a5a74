#include "model/checkpoint.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace hocket::model {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

/// Tensor name -> file name, sorted.
using WeightMap = std::map<std::string, std::string>;

tl::unexpected<Failure> bad_index(const std::string& why) {
  return fail(Code::bad_input, fmt::format("{}: {}", kIndexName, why));
}

/// A shard stands beside its index: anything that could lead out of the folder is refused.
bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name.find("..") == std::string::npos &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

/// Parses the index; remembers the first key of weight_map that comes twice, which a JSON tree would hide.
Json parse_index(const std::string& text, std::string& twice) {
  std::string section;
  std::set<std::string> names;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event != Json::parse_event_t::key) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    if (depth == 1) section = key;
    if (depth == 2 && section == "weight_map" && !names.insert(key).second && twice.empty()) twice = key;
    return true;
  };
  return Json::parse(text, watch);
}

Expected<WeightMap> read_index(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return bad_index("cannot be read");
  Json index;
  std::string twice;
  try {
    index = parse_index(text.str(), twice);
  } catch (const Json::exception& error) {
    return bad_index(error.what());
  }
  const auto listed = index.is_object() ? index.find("weight_map") : index.end();
  if (listed == index.end() || !listed->is_object() || listed->empty()) {
    return bad_index("no weight_map from tensor names to file names");
  }
  if (!twice.empty()) return bad_index(fmt::format("tensor {} is listed twice", quote(twice)));
  WeightMap map;
  for (const auto& [name, file] : listed->items()) {
    if (!file.is_string()) return bad_index(fmt::format("the file of {} is not a string", quote(name)));
    const auto& file_name = file.get_ref<const std::string&>();
    if (!is_plain(file_name)) {
      return bad_index(fmt::format("{} of tensor {} is not a plain file name", quote(file_name), quote(name)));
    }
    map.emplace(name, file_name);
  }
  return map;
}

/// Why a folder without safetensors files cannot be loaded.
Failure no_weights(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return {Code::missing, fmt::format("{}: no such folder", folder.string())};
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto ending = entry.path().extension();
    if (ending == ".bin" || ending == ".pt" || ending == ".pth") {
      return {Code::bad_input, fmt::format("{}: PyTorch pickle weights are not supported; convert to safetensors.",
                                           entry.path().string())};
    }
  }
  return {Code::missing, fmt::format("{}: neither {} nor {}", folder.string(), kSingleName, kIndexName)};
}

}  // namespace

Expected<Checkpoint> Checkpoint::open(const fs::path& folder) {
  Checkpoint checkpoint;
  std::error_code ignored;
  if (!fs::exists(folder / kIndexName, ignored)) {
    if (!fs::exists(folder / kSingleName, ignored)) return tl::unexpected(no_weights(folder));
    if (auto added = checkpoint.add(folder / kSingleName); !added) return tl::unexpected(added.error());
    return checkpoint;
  }
  const auto listed = read_index(folder / kIndexName);
  if (!listed) return tl::unexpected(listed.error());
  std::set<std::string> shards;
  for (const auto& [name, file] : *listed) shards.insert(file);
  for (const std::string& shard : shards) {
    if (!fs::exists(folder / shard, ignored)) {
      return fail(Code::missing, fmt::format("{}: listed in {} but missing", (folder / shard).string(), kIndexName));
    }
    if (auto added = checkpoint.add(folder / shard); !added) return tl::unexpected(added.error());
  }
  for (const auto& [name, file] : *listed) {
    const StoredTensor* tensor = checkpoint.find(name);
    if (tensor != nullptr && tensor->file->name() == file) continue;
    return bad_index(fmt::format("tensor {} is not in {}{}", quote(name), file,
                                 tensor == nullptr ? "" : " but in " + tensor->file->name()));
  }
  for (const auto& [name, tensor] : checkpoint.tensors_) {
    if (listed->contains(name)) continue;
    log::warning("model", "{}: tensor {} is not in {}", tensor.file->name(), quote(name), kIndexName);
  }
  return checkpoint;
}

Expected<void> Checkpoint::add(const fs::path& path) {
  auto file = SafetensorsFile::open(path);
  if (!file) return tl::unexpected(file.error());
  files_.push_back(std::make_unique<SafetensorsFile>(std::move(*file)));
  for (const TensorInfo& info : files_.back()->tensors()) {
    const auto [held, fresh] = tensors_.try_emplace(info.name, StoredTensor{&info, files_.back().get()});
    if (fresh) continue;
    return fail(Code::bad_input, fmt::format("tensor {} is in {} and in {}", quote(info.name),
                                             held->second.file->name(), files_.back()->name()));
  }
  return {};
}

const StoredTensor* Checkpoint::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

Expected<void> Checkpoint::check_unchanged() const {
  for (const auto& file : files_) {
    if (auto same = file->check_unchanged(); !same) return same;
  }
  return {};
}

}  // namespace hocket::model
