#include "model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

namespace hocket::model {
namespace {

namespace json = simdjson::ondemand;
using device::DType;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxRank = 64;

struct StoredType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};
constexpr std::array kStoredTypes{
    StoredType{"BOOL", 8, DType::boolean}, StoredType{"U8", 8, DType::u8},
    StoredType{"F8_E4M3", 8, DType::e4m3}, StoredType{"F8_E5M2", 8, DType::e5m2},
    StoredType{"F8_E8M0", 8, DType::e8m0}, StoredType{"F16", 16, DType::f16},
    StoredType{"BF16", 16, DType::bf16},   StoredType{"I32", 32, DType::i32},
    StoredType{"F32", 32, DType::f32},     StoredType{"I64", 64, DType::i64},
    StoredType{"F4", 4, {}},               StoredType{"F6_E2M3", 6, {}},
    StoredType{"F6_E3M2", 6, {}},          StoredType{"I8", 8, {}},
    StoredType{"I16", 16, {}},             StoredType{"U16", 16, {}},
    StoredType{"U32", 32, {}},             StoredType{"U64", 64, {}},
    StoredType{"F64", 64, {}},             StoredType{"C64", 64, {}}};

tl::unexpected<Failure> broken(std::string text) { return fail(Code::bad_input, std::move(text)); }

/// Bytes of a tensor, or why there is no such number.
Expected<int64_t> bytes_of(std::span<const int64_t> shape, int bits) {
  int64_t product = bits;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(product, extent, &product)) {
      return broken(fmt::format("shape {} overflows", shape_text(shape)));
    }
  }
  if (product % 8 != 0) return broken(fmt::format("shape {} is not a whole number of bytes", shape_text(shape)));
  return product / 8;
}

/// Reads the JSON text of a header, in one pass and without skipping anything: what is skipped is not validated.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text.data(), text.size()) {}

  Expected<std::vector<TensorInfo>> read() {
    json::object object;
    if (auto error = parser_.iterate(text_).get(document_)) {  // no document yet, so no position
      return broken(fmt::format("header is not valid: {}", simdjson::error_message(error)));
    }
    if (auto error = document_.get_object().get(object)) return invalid(error);
    for (auto next : object) {
      json::field field;
      std::string_view name;
      if (auto error = std::move(next).get(field)) return invalid(error);
      const int64_t byte = position(field.key().raw());
      if (auto error = field.unescaped_key().get(name)) return invalid(error);
      entry_ = fmt::format("tensor {} at byte {}", quote(name), byte);
      auto done = name == "__metadata__" ? read_metadata(field.value(), byte) : read_tensor(name, field.value());
      if (!done) return tl::unexpected(done.error());
      entry_.clear();
    }
    const char* rest = nullptr;  // a location is only known where there is text left
    if (document_.current_location().get(rest) == simdjson::SUCCESS) {
      return broken(fmt::format("byte {}: text behind the end of the header's JSON", position(rest)));
    }
    return std::move(tensors_);
  }

 private:
  /// A position in the JSON text as a byte of the file.
  int64_t position(const char* at) const { return at - text_.data() + static_cast<int64_t>(kLengthBytes); }

  tl::unexpected<Failure> invalid(simdjson::error_code error) {
    const char* at = nullptr;
    const bool known = document_.current_location().get(at) == simdjson::SUCCESS;
    return broken(fmt::format("{}{}header is not valid{}: {}", entry_, entry_.empty() ? "" : ": ",
                              known ? fmt::format(" at byte {}", position(at)) : "", simdjson::error_message(error)));
  }
  tl::unexpected<Failure> bad_entry(std::string_view why) { return broken(fmt::format("{}: {}", entry_, why)); }

  Expected<void> read_metadata(json::value value, int64_t byte) {
    if (std::exchange(has_metadata_, true)) return broken(fmt::format("byte {}: __metadata__ appears twice", byte));
    entry_ = fmt::format("__metadata__ at byte {}", byte);
    json::object object;
    if (value.get_object().get(object)) return bad_entry("not a map of strings");
    std::vector<std::string> keys;
    for (auto next : object) {
      json::field field;
      std::string_view key, text;
      if (auto error = std::move(next).get(field)) return invalid(error);
      if (auto error = field.unescaped_key().get(key)) return invalid(error);
      keys.emplace_back(key);
      if (field.value().get_string().get(text)) return bad_entry(fmt::format("{} is not a string", quote(key)));
    }
    std::sort(keys.begin(), keys.end());
    const auto twin = std::adjacent_find(keys.begin(), keys.end());
    if (twin != keys.end()) return bad_entry(fmt::format("key {} appears twice", quote(*twin)));
    return {};
  }

  Expected<void> read_tensor(std::string_view name, json::value value) {
    TensorInfo tensor;
    tensor.name = name;
    json::object object;
    if (value.get_object().get(object)) return bad_entry("not an object");
    std::vector<int64_t> offsets;
    bool has_type = false, has_shape = false, has_offsets = false;
    for (auto next : object) {
      json::field field;
      std::string_view key;
      if (auto error = std::move(next).get(field)) return invalid(error);
      if (auto error = field.unescaped_key().get(key)) return invalid(error);
      bool* seen = key == "dtype"          ? &has_type
                   : key == "shape"        ? &has_shape
                   : key == "data_offsets" ? &has_offsets
                                           : nullptr;
      if (seen == nullptr) return bad_entry(fmt::format("unknown key {}", quote(key)));
      if (std::exchange(*seen, true)) return bad_entry(fmt::format("{} appears twice", key));
      auto done = seen == &has_type    ? read_type(field.value(), tensor)
                  : seen == &has_shape ? read_integers(field.value(), "shape", tensor.shape)
                                       : read_integers(field.value(), "data_offsets", offsets);
      if (!done) return done;
    }
    if (!has_type || !has_shape || !has_offsets) {
      return bad_entry(fmt::format("{} is missing", !has_type ? "dtype" : !has_shape ? "shape" : "data_offsets"));
    }
    return add(std::move(tensor), offsets);
  }

  Expected<void> read_type(json::value value, TensorInfo& tensor) {
    std::string_view text;
    if (value.get_string().get(text)) return bad_entry("dtype is not a string");
    const auto* type = std::find_if(kStoredTypes.begin(), kStoredTypes.end(),
                                    [&](const StoredType& known) { return known.name == text; });
    if (type == kStoredTypes.end()) return bad_entry(fmt::format("unknown dtype {}", quote(text)));
    tensor.stored_type = type->name;
    tensor.dtype = type->dtype;
    bits_ = type->bits;
    return {};
  }

  Expected<void> read_integers(json::value value, std::string_view what, std::vector<int64_t>& out) {
    json::array array;
    if (value.get_array().get(array)) return bad_entry(fmt::format("{} is not an array", what));
    for (auto next : array) {
      json::value element;
      uint64_t number = 0;
      if (auto error = std::move(next).get(element)) return invalid(error);
      if (element.get_uint64().get(number) || number > std::numeric_limits<int64_t>::max()) {
        return bad_entry(fmt::format("{} holds something else than integers in [0, 2^63)", what));
      }
      if (out.size() == kMaxRank) return bad_entry(fmt::format("{} has more than {} numbers", what, kMaxRank));
      out.push_back(static_cast<int64_t>(number));
    }
    return {};
  }

  Expected<void> add(TensorInfo tensor, std::span<const int64_t> offsets) {
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      return bad_entry(fmt::format("data_offsets {} is not [begin, end]", shape_text(offsets)));
    }
    const auto bytes = bytes_of(tensor.shape, bits_);
    if (!bytes) return bad_entry(bytes.error().message);
    if (offsets[1] - offsets[0] != *bytes) {
      return bad_entry(fmt::format("{} needs {} bytes, data_offsets {} hold {}", tensor.str(), *bytes,
                                   shape_text(offsets), offsets[1] - offsets[0]));
    }
    tensor.begin = offsets[0];
    tensor.end = offsets[1];
    tensors_.push_back(std::move(tensor));
    return {};
  }

  simdjson::padded_string text_;
  json::parser parser_;
  json::document document_;
  std::vector<TensorInfo> tensors_;
  std::string entry_;  // what a message is about
  int bits_ = 0;       // of an element of the tensor being read
  bool has_metadata_ = false;
};

Expected<void> check_names(std::span<const TensorInfo> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin != names.end()) return broken(fmt::format("tensor {} appears twice in the header", quote(*twin)));
  return {};
}

/// Sorts by position, turns offsets into positions of the file, and refuses holes, overlaps and tails.
Expected<void> lay_out(std::vector<TensorInfo>& tensors, int64_t data_begin, int64_t file_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const int64_t data_bytes = file_bytes - data_begin;
  int64_t expected = 0;
  for (TensorInfo& tensor : tensors) {
    if (tensor.end > data_bytes) {
      return broken(fmt::format("tensor {} ends at data byte {}, but the file holds {} (truncated?)",
                                quote(tensor.name), tensor.end, data_bytes));
    }
    if (tensor.begin != expected) {
      return broken(fmt::format("tensor {} begins at data byte {} where {} is expected ({})", quote(tensor.name),
                                tensor.begin, expected, tensor.begin < expected ? "overlap" : "hole"));
    }
    expected = tensor.end;
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  if (expected == data_bytes) return {};
  return broken(fmt::format("{} bytes behind the last tensor, from byte {}", data_bytes - expected,
                            data_begin + expected));
}

Expected<std::vector<TensorInfo>> parse(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) return broken(fmt::format("{} bytes are too few for a header", file.size()));
  uint64_t length = 0;  // the format is little-endian, as every machine this runs on
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    return broken(fmt::format("byte 0: a header of {} bytes, more than {}", length, kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    return broken(fmt::format("byte 0: a header of {} bytes in a file of {} (truncated?)", length, file.size()));
  }
  const auto* begin = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  std::string_view text(begin, length);
  if (!text.starts_with('{')) return broken("byte 8: the header does not begin with {");
  // A position of npos cannot occur: the text begins with a brace.
  const size_t last = text.find_last_not_of(' ');
  if (text[last] != '}') return broken(fmt::format("byte {}: the header does not end with }}", last + kLengthBytes));
  text = text.substr(0, last + 1);

  auto tensors = HeaderReader(text).read();
  if (!tensors) return tensors;
  if (auto unique = check_names(*tensors); !unique) return tl::unexpected(unique.error());
  const auto data_begin = static_cast<int64_t>(kLengthBytes + length);
  if (auto laid = lay_out(*tensors, data_begin, static_cast<int64_t>(file.size())); !laid) {
    return tl::unexpected(laid.error());
  }
  return tensors;
}

Expected<int64_t> size_of_file(int descriptor, std::string_view name) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return broken(fmt::format("{}: {}", name, std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) return broken(fmt::format("{}: not a regular file", name));
  return int64_t{status.st_size};
}

}  // namespace

std::string quote(std::string_view text) {
  constexpr size_t kLongest = 200;
  std::string out = "\"";
  for (char c : text.substr(0, kLongest)) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return out + (text.size() > kLongest ? "...\"" : "\"");
}

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string TensorInfo::str() const { return fmt::format("{} {}", shape_text(shape), stored_type); }

Expected<std::vector<TensorInfo>> parse_header(std::span<const std::byte> file, std::string_view file_name) {
  auto tensors = parse(file);
  if (!tensors) tensors.error().message = fmt::format("{}: {}", file_name, tensors.error().message);
  return tensors;
}

Expected<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return fail(Code::missing, fmt::format("{}: {}", path.string(), std::strerror(errno)));
  SafetensorsFile file(path.filename().string(), descriptor);
  const auto bytes = size_of_file(descriptor, file.name_);
  if (!bytes) return tl::unexpected(bytes.error());
  if (*bytes > 0) {  // an empty file cannot be mapped; parse_header() refuses it by its size
    void* memory = mmap(nullptr, static_cast<size_t>(*bytes), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (memory == MAP_FAILED) return broken(fmt::format("{}: cannot be mapped: {}", file.name_, std::strerror(errno)));
    file.map_ = {static_cast<const std::byte*>(memory), static_cast<size_t>(*bytes)};
  }
  // A file that became shorter since the first look would end the process with SIGBUS when it is read.
  if (auto same = file.check_unchanged(); !same) return tl::unexpected(same.error());
  auto tensors = parse_header(file.map_, file.name_);
  if (!tensors) return tl::unexpected(tensors.error());
  file.tensors_ = std::move(*tensors);
  return file;
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : name_(std::move(other.name_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      map_(std::exchange(other.map_, {})),
      tensors_(std::move(other.tensors_)) {}

SafetensorsFile::~SafetensorsFile() {
  if (!map_.empty()) munmap(const_cast<std::byte*>(map_.data()), map_.size());
  if (descriptor_ >= 0) close(descriptor_);
}

Expected<void> SafetensorsFile::check_unchanged() const {
  const auto bytes = size_of_file(descriptor_, name_);
  if (!bytes) return tl::unexpected(bytes.error());
  if (static_cast<size_t>(*bytes) == map_.size()) return {};
  return broken(fmt::format("{}: the file changed while loading: {} bytes, now {}", name_, map_.size(), *bytes));
}

}  // namespace hocket::model
