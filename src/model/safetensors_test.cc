#include "model/safetensors.h"

#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/test_support.h"

namespace hocket::model {
namespace {

using ::testing::HasSubstr;
using testing::file_of;
using testing::TempFolder;

Expected<std::vector<TensorInfo>> parse(const std::string& file) {
  return parse_header(std::as_bytes(std::span(file)), "x.safetensors");
}

struct Broken {
  const char* rule;
  std::string file;
  std::vector<std::string> named;  // what the message must hold
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.rule; }

/// One tensor "w" with the given fields, and `bytes` bytes of data.
std::string one(const std::string& fields, size_t bytes) {
  return file_of("{\"w\":{" + fields + "}}", std::string(bytes, '\0'));
}

std::string with_length(uint64_t length, std::string file) {
  std::memcpy(file.data(), &length, 8);
  return file;
}

const std::string kGood = R"("dtype":"BF16","shape":[2,2],"data_offsets":[0,8])";

std::vector<Broken> broken_files() {
  const std::string good = one(kGood, 8);
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  return {
      {"no length", "1234567", {"7 bytes are too few"}},
      {"empty", "", {"0 bytes are too few"}},
      {"length over the limit", with_length(100'000'001, good), {"byte 0", "100000001"}},
      {"length over the file", with_length(good.size() - 7, good), {"byte 0", "truncated"}},
      {"length that overflows", with_length(~uint64_t{0}, good), {"byte 0"}},
      {"length zero", with_length(0, good), {"byte 8"}},
      {"not UTF-8", file_of("{\"w\xff\":{" + kGood + "}}", std::string(8, 'x')), {"header is not valid"}},
      {"leading space", file_of(" {}"), {"byte 8", "begin with {"}},
      {"not JSON", file_of("{w}"), {"header is not valid"}},
      {"an array", file_of("[]"), {"begin with {"}},
      {"trailing newline", file_of("{}\n"), {"byte 10"}},
      {"trailing text", file_of("{} x"), {"does not end with }"}},
      {"second object", file_of("{}{}"), {"byte 10", "behind the end"}},
      {"unclosed", file_of(R"({"w":{"dtype":"U8"})"), {"tensor \"w\"", "shape is missing"}},
      {"trailing comma", file_of("{\"w\":{" + kGood + "},}", std::string(8, 'x')), {"header is not valid"}},
      {"missing comma", file_of("{\"w\":{" + kGood + "}\"v\":{}}", std::string(8, 'x')), {"header is not valid"}},
      {"depth", one(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])", 1), {"tensor \"w\" at byte 10", "shape"}},
      {"duplicate tensor", file_of("{" + a + ",\"b\":{" + kGood + "}," + a + "}", "12345678"), {"\"a\" appears twice"}},
      {"duplicate by escape", file_of("{" + a + R"(,"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})", "1234"),
       {"\"a\" appears twice"}},
      {"duplicate key", one(R"("dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1])", 1), {"dtype appears twice"}},
      {"unknown key", one(kGood + R"(,"stride":[1])", 8), {"unknown key \"stride\""}},
      {"metadata not a map", file_of(R"({"__metadata__":[]})"), {"__metadata__ at byte 10"}},
      {"metadata not strings", file_of(R"({"__metadata__":{"format":1}})"), {"\"format\" is not a string"}},
      {"metadata nested", file_of(R"({"__metadata__":{"format":{}}})"), {"\"format\" is not a string"}},
      {"metadata twice", file_of(R"({"__metadata__":{},"__metadata__":{}})"), {"__metadata__ appears twice"}},
      {"metadata key twice", file_of(R"({"__metadata__":{"a":"1","a":"1"}})"), {"\"a\" appears twice"}},
      {"no dtype", one(R"("shape":[1],"data_offsets":[0,1])", 1), {"\"w\"", "dtype is missing"}},
      {"no shape", one(R"("dtype":"U8","data_offsets":[0,1])", 1), {"shape is missing"}},
      {"no offsets", one(R"("dtype":"U8","shape":[1])", 1), {"data_offsets is missing"}},
      {"dtype not text", one(R"("dtype":8,"shape":[1],"data_offsets":[0,1])", 1), {"dtype is not a string"}},
      {"dtype unknown", one(R"("dtype":"Q4_K","shape":[1],"data_offsets":[0,1])", 1), {"unknown dtype \"Q4_K\""}},
      {"shape not an array", one(R"("dtype":"U8","shape":1,"data_offsets":[0,1])", 1), {"shape is not an array"}},
      {"negative", one(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])", 1), {"shape holds"}},
      {"fraction", one(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])", 1), {"shape holds"}},
      {"exponent", one(R"("dtype":"U8","shape":[1e0],"data_offsets":[0,1])", 1), {"shape holds"}},
      {"text number", one(R"("dtype":"U8","shape":["1"],"data_offsets":[0,1])", 1), {"shape holds"}},
      {"leading zero", one(R"("dtype":"U8","shape":[01],"data_offsets":[0,1])", 1), {"tensor \"w\""}},
      {"2^63", one(R"("dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1])", 1), {"shape holds"}},
      {"2^64", one(R"("dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1])", 1), {"shape holds"}},
      {"three offsets", one(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,1])", 1), {"data_offsets [0, 1, 1]"}},
      {"offsets reversed", one(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])", 1), {"data_offsets [1, 0]"}},
      {"product overflows", one(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0), {"overflows"}},
      {"bits overflow", one(R"("dtype":"F32","shape":[2305843009213693952],"data_offsets":[0,0])", 0), {"overflows"}},
      {"half a byte", one(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])", 2), {"whole number of bytes"}},
      {"size differs", one(R"("dtype":"BF16","shape":[2,2],"data_offsets":[0,4])", 4), {"needs 8 bytes", "hold 4"}},
      {"first not at 0", one(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])", 2), {"\"w\"", "hole"}},
      {"hole", file_of("{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", "123456"), {"\"b\"", "hole"}},
      {"overlap", file_of("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", "123456"),
       {"\"b\"", "overlap"}},
      {"same place", file_of("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234"), {"overlap"}},
      {"tail", one(kGood, 9), {"1 bytes behind the last tensor"}},
      {"truncated data", one(kGood, 7), {"\"w\"", "truncated"}},
      {"offset past the file", one(R"("dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807])", 1),
       {"\"w\""}},
      {"tail without tensors", file_of("{}", "x"), {"1 bytes behind"}},
      {"rank 65", one(R"("dtype":"U8","shape":[)" + [] {
         std::string ones = "1";
         for (int i = 1; i < 65; ++i) ones += ",1";
         return ones;
       }() + R"(],"data_offsets":[0,1])", 1), {"more than 64"}},
      {"line break in a name", file_of(R"({"a\nb":{"dtype":"U8"}})"), {"\"a?b\""}},
  };
}

class SafetensorsRule : public ::testing::TestWithParam<Broken> {};

TEST_P(SafetensorsRule, IsEnforcedWithOneLineThatNamesThePlace) {
  const auto result = parse(GetParam().file);
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, ::testing::StartsWith("x.safetensors: "));
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  for (const std::string& part : GetParam().named) EXPECT_THAT(result.error().message, HasSubstr(part));
}
INSTANTIATE_TEST_SUITE_P(Header, SafetensorsRule, ::testing::ValuesIn(broken_files()));

TEST(Safetensors, AcceptsScalarsEmptyTensorsMetadataAndPadding) {
  const auto tensors = parse(file_of(
      R"({"__metadata__":{"format":"pt","":""},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("e1":{"shape":[0,7],"dtype":"I64","data_offsets":[4,4]},"e2":{"data_offsets":[4,4],"dtype":"F4","shape":[0]},)"
      R"("z\u00fc":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[4,7]}}   )",
      "abcdefg"));
  ASSERT_TRUE(tensors.has_value()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 4U);
  EXPECT_EQ((*tensors)[0].str(), "[] F32");
  EXPECT_EQ((*tensors)[3].name, "z\xc3\xbc");
  EXPECT_FALSE((*tensors)[3].dtype.has_value());
  EXPECT_EQ((*tensors)[3].end - (*tensors)[3].begin, 3);
  EXPECT_TRUE(parse(file_of("{}")).has_value());
}

TEST(Safetensors, NamesTheByteOfTheEntry) {
  const std::string file = one(R"("dtype":"Q","shape":[1],"data_offsets":[0,1])", 1);
  EXPECT_EQ(file.find("\"w\"") + 1, file.find('w'));
  EXPECT_THAT(parse(file).error().message, HasSubstr("tensor \"w\" at byte 10: unknown dtype"));
}

TEST(SafetensorsFile, ReadsBytesAtAnyAlignment) {
  const TempFolder folder;
  for (const char* padding : {"", " ", "  ", "   "}) {
    const auto path = folder.write("t.safetensors", file_of({{"a", "U8", {3}, "abc"}, {"b", "BF16", {1}, "de"}}, padding));
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    const auto bytes = file->bytes(file->tensors()[1]);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "de");
  }
}

TEST(SafetensorsFile, RefusesWhatIsNoFile) {
  const TempFolder folder;
  EXPECT_THAT(SafetensorsFile::open(folder.path() / "none").error().message, HasSubstr("No such file"));
  EXPECT_THAT(SafetensorsFile::open(folder.path()).error().message, HasSubstr("not a regular file"));
  EXPECT_THAT(SafetensorsFile::open(folder.write("empty", "")).error().message, HasSubstr("0 bytes"));
}

TEST(SafetensorsFile, NoticesThatTheFileShrankOrGrew) {
  const TempFolder folder;
  const auto path = folder.write("t.safetensors", file_of({{"a", "U8", {3}, "abc"}}));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->check_unchanged().has_value());
  const auto size = std::filesystem::file_size(path);
  for (const auto other : {size - 1, size + 1}) {
    std::filesystem::resize_file(path, other);
    ASSERT_FALSE(file->check_unchanged().has_value());
    EXPECT_THAT(file->check_unchanged().error().message, HasSubstr("t.safetensors: the file changed while loading"));
  }
}

/// The rules again, in other words and with another JSON library: may this file be accepted?
bool oracle_accepts(const std::string& file) {
  using Json = nlohmann::json;
  if (file.size() < 8) return false;
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  if (length > 100'000'000 || length > file.size() - 8) return false;
  const std::string text = file.substr(8, length);
  if (text.empty() || text.front() != '{' || text.find_last_not_of(' ') != text.rfind('}')) return false;
  bool twice = false;
  std::vector<std::map<std::string, int>> keys(8);
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const auto level = static_cast<size_t>(std::min(depth, 7));
    if (event == Json::parse_event_t::object_start) keys[std::min<size_t>(level + 1, 7)].clear();
    if (event == Json::parse_event_t::key) twice = twice || ++keys[level][parsed.get<std::string>()] > 1;
    return true;
  };
  const Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (!json.is_object() || twice) return false;
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  const std::map<std::string, unsigned> bits{{"U8", 8},   {"U16", 16}, {"F16", 16}, {"BF16", 16},
                                             {"F32", 32}, {"U64", 64}, {"F64", 64}, {"F4", 4}};
  for (const auto& [name, entry] : json.items()) {
    if (!entry.is_object()) return false;
    if (name == "__metadata__") {
      for (const auto& value : entry) {
        if (!value.is_string()) return false;
      }
      continue;
    }
    if (entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets")) return false;
    if (!entry["dtype"].is_string() || !bits.contains(entry["dtype"])) return false;
    uint64_t product = bits.at(entry["dtype"]);
    if (!entry["shape"].is_array() || !entry["data_offsets"].is_array()) return false;
    for (const auto& extent : entry["shape"]) {
      if (!extent.is_number_unsigned()) return false;
      const auto factor = extent.get<uint64_t>();
      if (factor != 0 && product > (uint64_t{1} << 62) / factor) return false;
      product *= factor;
    }
    const auto& offsets = entry["data_offsets"];
    if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) return false;
    spans.emplace_back(offsets[0], offsets[1]);
    if (offsets[0] > offsets[1] || product % 8 != 0 || product / 8 != spans.back().second - spans.back().first) return false;
  }
  std::sort(spans.begin(), spans.end());
  uint64_t at = 0;
  for (const auto& [begin, end] : spans) {
    if (begin != at) return false;
    at = end;
  }
  return at == file.size() - 8 - length;
}

TEST(Safetensors, AgreesWithAnOracleOnMutatedHeaders) {
  const std::string base = file_of(
      R"({"__metadata__":{"format":"pt","k":"v"},"a":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]},)"
      R"("b\u0063":{"dtype":"BF16","shape":[],"data_offsets":[6,8]},"c":{"dtype":"F4","shape":[4,0],"data_offsets":[8,8]}} )",
      "12345678");
  const std::string alphabet = "{}[]\",:0123456789 \\abdtu-.eE\n\xc3\xbc";
  const uint64_t seed = 20240611;
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  int accepted = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string file = base;
    for (size_t edits = 1 + below(2); edits > 0; --edits) {
      const size_t at = 8 + below(file.size() - 8);
      switch (below(4)) {
        case 0: file[at] = alphabet[below(alphabet.size())]; break;
        case 1: file.erase(at, 1); break;
        case 2: file.insert(at, 1, alphabet[below(alphabet.size())]); break;
        default: std::swap(file[at], file[8 + below(file.size() - 8)]); break;
      }
    }
    const uint64_t length = file.size() - 16;  // the data keeps its eight bytes; the header takes what changed
    std::memcpy(file.data(), &length, 8);
    const bool expected = oracle_accepts(file);
    accepted += expected ? 1 : 0;
    ASSERT_EQ(parse(file).has_value(), expected) << "seed " << seed << " round " << round << "\n" << file.substr(8);
  }
  EXPECT_GT(accepted, 200);
}

}  // namespace
}  // namespace hocket::model
