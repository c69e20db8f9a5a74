// From a folder to a model: what is refused, and that every way to store the same weights gives the same bits.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/checkpoint.h"
#include "model/forward_testing.h"
#include "model/source.h"
#include "model/test_support.h"

namespace hocket::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using testing::file_of;
using testing::NamedTensor;
using testing::TempFolder;
namespace fs = std::filesystem;

const fs::path kRoot = HOCKET_SOURCE_DIR;
const fs::path kBf16 = kRoot / "test/data/tiny-moe-bf16", kFp8 = kRoot / "models/tiny-moe-fp8";
const fs::path kRandom = kRoot / "test/data/qwen3-moe-random";  // layer 1 is dense

/// All tensors of a folder, sorted by name, to be changed and written again.
std::vector<NamedTensor> read_all(const fs::path& folder) {
  std::vector<NamedTensor> out;
  const auto checkpoint = Checkpoint::open(folder).value();
  for (const auto& [name, stored] : checkpoint.tensors()) {
    const auto bytes = stored.bytes();
    out.push_back({name, std::string(stored.info->stored_type), stored.info->shape,
                   {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

NamedTensor& find(std::vector<NamedTensor>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name == name; });
}

/// Why rank 0 cannot load these tensors with the config of `from`.
std::string refusal(const std::vector<NamedTensor>& tensors, const fs::path& from) {
  const TempFolder folder;
  folder.write("model.safetensors", file_of(tensors));
  const auto model = load_model(folder.path(), load_config(from).value(), {});
  return model ? "loaded" : model.error().message;
}

/// Logits of a short prompt, as bits to compare.
std::vector<float> logits_of(const fs::path& folder, const ModelConfig& config,
                             LoadFormat format = LoadFormat::automatic, int ranks = 1) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 21; ++i) prompt.push_back(i * 37 % static_cast<int32_t>(config.vocab));
  const auto models = testing::load_ranks(folder, config, ranks, format);
  return testing::run_steps(models, {.ranks = ranks, .max_tokens = 21, .requests = 1}, {{{0, prompt}}})[0].at(0);
}
std::vector<float> logits_of(const std::vector<NamedTensor>& tensors, const ModelConfig& config,
                             const std::string& padding = "") {
  const TempFolder folder;
  folder.write("model.safetensors", file_of(tensors, padding));
  return logits_of(folder.path(), config);
}

// --- the folder

TEST(Directory, RefusesAFolderWithoutWeights) {
  const TempFolder folder;
  EXPECT_THAT(Checkpoint::open(folder.path() / "none").error().message, HasSubstr("no such folder"));
  EXPECT_THAT(Checkpoint::open(folder.path()).error().message, HasSubstr("neither model.safetensors nor"));
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(Checkpoint::open(folder.path()).error().message,
              HasSubstr("PyTorch pickle weights are not supported; convert to safetensors."));
}

TEST(Directory, RefusesABrokenIndex) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "model.safetensors.index.json: "},
      {"[]", "no weight_map"},
      {"{}", "no weight_map"},
      {R"({"weight_map":{}})", "no weight_map"},
      {R"({"weight_map":{"a":1}})", "the file of \"a\" is not a string"},
      {R"({"weight_map":{"a":"../x"}})", "\"../x\" of tensor \"a\" is not a plain file name"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "not a plain file name"},
      {R"({"weight_map":{"a":"d\\x"}})", "not a plain file name"},
      {R"({"weight_map":{"a":""}})", "not a plain file name"},
      {R"({"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})", "tensor \"a\" is listed twice"},
      {R"({"weight_map":{"a":"3.safetensors"}})", "3.safetensors: listed in model.safetensors.index.json but missing"},
      {R"({"weight_map":{"c":"1.safetensors"}})", "tensor \"c\" is not in 1.safetensors"},
      {R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"}})",
       "tensor \"b\" is not in 1.safetensors but in 2.safetensors"},
      {R"({"weight_map":{"a":"1.safetensors","b":"4.safetensors"}})", "tensor \"a\" is in 1.safetensors and in 4.safetensors"},
  };
  const TempFolder folder;
  folder.write("1.safetensors", file_of({{"a", "U8", {1}, "x"}}));
  folder.write("2.safetensors", file_of({{"b", "U8", {1}, "x"}, {"c", "U8", {1}, "x"}}));
  folder.write("4.safetensors", file_of({{"a", "U8", {1}, "x"}, {"b", "U8", {1}, "x"}}));
  for (const auto& [index, message] : cases) {
    folder.write("model.safetensors.index.json", index);
    const auto checkpoint = Checkpoint::open(folder.path());
    ASSERT_FALSE(checkpoint.has_value()) << index;
    EXPECT_THAT(checkpoint.error().message, HasSubstr(message)) << index;
  }
}

TEST(Directory, NamesTheShardThatIsMissingOrTruncated) {
  const TempFolder folder;
  for (const auto& entry : fs::directory_iterator(kBf16)) fs::copy(entry.path(), folder.path());
  const auto config = load_config(folder.path()).value();
  const fs::path shard = folder.path() / "model-00002-of-00003.safetensors";
  const auto size = fs::file_size(shard);
  for (const uintmax_t left : {size - 1, size / 2, uintmax_t{100}, uintmax_t{7}, uintmax_t{0}}) {
    fs::resize_file(shard, left);
    const auto model = load_model(folder.path(), config, {});
    ASSERT_FALSE(model.has_value());
    EXPECT_THAT(model.error().message, HasSubstr("model-00002-of-00003.safetensors: ")) << left;
  }
  fs::remove(shard);
  EXPECT_THAT(load_model(folder.path(), config, {}).error().message,
              HasSubstr("model-00002-of-00003.safetensors: listed in model.safetensors.index.json but missing"));
}

// --- the tensors

TEST(Load, ListsMissingAndUnexpectedTensors) {
  auto tensors = read_all(kRandom);
  const auto whole = tensors;
  std::erase_if(tensors, [](const auto& tensor) { return tensor.name.find("layers.2.mlp.experts.3") != std::string::npos; });
  EXPECT_THAT(refusal(tensors, kRandom), HasSubstr("3 tensors are missing: model.layers.2.mlp.experts.3.down_proj.weight, "
                                                   "model.layers.2.mlp.experts.3.gate_proj.weight"));
  std::erase_if(tensors, [](const auto& tensor) { return tensor.name.find("layers.0.mlp") != std::string::npos; });
  EXPECT_THAT(refusal(tensors, kRandom), HasSubstr("28 tensors are missing: "));
  EXPECT_THAT(refusal(tensors, kRandom), HasSubstr(", ... (config.json"));
  tensors = whole;
  tensors.push_back({"model.layers.0.self_attn.q_proj.bias", "BF16", {1}, "xx"});
  EXPECT_THAT(refusal(tensors, kRandom),
              HasSubstr("1 tensor is unexpected: \"model.layers.0.self_attn.q_proj.bias\""));
  tensors.back().name = "model.layers.0.self_attn.rotary_emb.inv_freq";  // left over in old checkpoints
  EXPECT_EQ(refusal(tensors, kRandom), "loaded");
}

TEST(Load, IgnoresTheHeadOfATiedModel) {
  auto tensors = read_all(kBf16);
  tensors.push_back({"lm_head.weight", "BF16", {1}, "xx"});
  EXPECT_EQ(refusal(tensors, kBf16), "loaded");
}

TEST(Load, NamesTheTensorWhoseShapeOrTypeContradictsTheConfig) {
  const auto whole = read_all(kRandom);
  auto tensors = whole;
  find(tensors, "model.layers.2.self_attn.k_proj.weight").shape = {128, 64};
  EXPECT_THAT(refusal(tensors, kRandom),
              AllOf(HasSubstr("model.safetensors: tensor model.layers.2.self_attn.k_proj.weight at byte "),
                    HasSubstr("is [128, 64] BF16, but config.json of qwen3-moe-random asks for [64, 128] BF16")));
  tensors = whole;
  find(tensors, "model.layers.2.self_attn.k_proj.weight").dtype = "F16";
  EXPECT_THAT(refusal(tensors, kRandom), HasSubstr("is [64, 128] F16, but"));
  tensors = read_all(kFp8);
  find(tensors, "model.layers.0.self_attn.q_proj.weight").dtype = "F8_E5M2";
  EXPECT_THAT(refusal(tensors, kFp8), HasSubstr("is [512, 256] F8_E5M2, but config.json of tiny-moe-fp8 asks for [512, 256] F8_E4M3"));
  ModelConfig wrong = load_config(kRandom).value();
  wrong.moe_intermediate = 96;
  EXPECT_THAT(load_model(kRandom, wrong, {}).error().message, HasSubstr("asks for [96, 128] BF16"));
  wrong = load_config(kFp8).value();
  wrong.format = ops::WeightFormat::bf16;
  EXPECT_THAT(load_model(kFp8, wrong, {}).error().message, HasSubstr("F8_E4M3, but config.json of tiny-moe-fp8 asks for"));
}

TEST(Load, RefusesNanCodesAndScales) {
  const auto whole = read_all(kFp8);
  const std::string name = "model.layers.1.mlp.experts.2.up_proj.weight";
  auto tensors = whole;
  find(tensors, name).data[77] = '\xff';
  EXPECT_THAT(refusal(tensors, kFp8), HasSubstr("model.safetensors: tensor " + name + " holds the FP8 code NaN at element 77"));
  tensors = whole;
  const float infinite = HUGE_VALF;
  std::memcpy(&find(tensors, name + "_scale_inv").data[4], &infinite, 4);
  EXPECT_THAT(refusal(tensors, kFp8), HasSubstr("tensor " + name + "_scale_inv holds inf at element 1"));
}

TEST(Load, RefusesRanksThatDoNotDivideTheExperts) {
  const auto config = load_config(kRandom).value();
  EXPECT_EQ(load_model(kRandom, config, {.rank = 0, .ranks = 3}).error().message,
            "8 experts cannot be spread evenly over 3 expert-parallel ranks. Choose a size that divides 8.");
  EXPECT_FALSE(load_model(kRandom, config, {.rank = 2, .ranks = 2}).has_value());
}

TEST(Load, ReadsOnlyItsOwnExpertsAndSaysHowFarItIs) {
  const auto config = load_config(kFp8).value();
  std::vector<int64_t> bytes;
  for (const int ranks : {1, 2, 4}) {
    int64_t last = 0, total = 0;
    const auto progress = [&](int64_t done, int64_t all) {
      EXPECT_GE(done, last);
      EXPECT_LE(done, all);
      last = done;
      total = all;
    };
    const auto model = load_model(kFp8, config, {.rank = ranks - 1, .ranks = ranks, .progress = progress}).value();
    EXPECT_EQ(last, total);
    bytes.push_back(total);
  }
  const int64_t experts = 4 * 16 * (3 * 128 * 256 + 6 * 4);  // codes, and six scales each
  EXPECT_EQ(bytes[0] - bytes[1], experts / 2);
  EXPECT_EQ(bytes[0] - bytes[2], experts * 3 / 4);
}

TEST(Load, NeverReadsTheExpertsOfOtherRanks) {
  auto tensors = read_all(kFp8);
  find(tensors, "model.layers.1.mlp.experts.9.up_proj.weight").data[0] = '\x7f';  // refused by whoever reads it
  const TempFolder folder;
  folder.write("model.safetensors", file_of(tensors));
  const auto config = load_config(kFp8).value();
  EXPECT_TRUE(load_model(folder.path(), config, {.rank = 0, .ranks = 2}).has_value());
  EXPECT_FALSE(load_model(folder.path(), config, {.rank = 1, .ranks = 2}).has_value());
}

// --- equal weights, stored in different ways

/// Experts of each layer as transformers 5 keeps them: gate_up_proj [E, 2I, H], down_proj [E, H, I].
std::vector<NamedTensor> fuse(std::vector<NamedTensor> tensors, int layers, int experts) {
  for (int layer = 0; layer < layers; ++layer) {
    const std::string mlp = fmt::format("model.layers.{}.mlp.experts.", layer);
    for (const std::string tail : {"", "_scale_inv"}) {
      const auto at = [&](int expert, const char* projection) {
        return std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) {
          return tensor.name == fmt::format("{}{}.{}_proj.weight{}", mlp, expert, projection, tail);
        });
      };
      if (at(0, "gate") == tensors.end()) continue;
      NamedTensor gate_up{mlp + "gate_up_proj" + tail, at(0, "gate")->dtype, at(0, "gate")->shape, ""};
      NamedTensor down{mlp + "down_proj" + tail, at(0, "down")->dtype, at(0, "down")->shape, ""};
      for (int expert = 0; expert < experts; ++expert) {
        gate_up.data += at(expert, "gate")->data + at(expert, "up")->data;
        down.data += at(expert, "down")->data;
      }
      gate_up.shape[0] *= 2;
      for (NamedTensor* fused : {&gate_up, &down}) fused->shape.insert(fused->shape.begin(), experts);
      std::erase_if(tensors, [&](const auto& tensor) {
        return tensor.name.starts_with(mlp) && tensor.name.ends_with(".weight" + tail);
      });
      tensors.push_back(gate_up);
      tensors.push_back(down);
    }
  }
  return tensors;
}

TEST(Load, FusedAndSeparateExpertsGiveEqualBits) {
  const auto random = load_config(kRandom).value(), fp8 = load_config(kFp8).value();
  EXPECT_EQ(logits_of(fuse(read_all(kRandom), 4, 8), random), logits_of(kRandom, random));
  EXPECT_EQ(logits_of(fuse(read_all(kFp8), 4, 16), fp8), logits_of(kFp8, fp8));
}

TEST(Load, ShardsAndASingleFileGiveEqualBits) {
  const auto config = load_config(kBf16).value();
  EXPECT_EQ(logits_of(read_all(kBf16), config), logits_of(kBf16, config));
}

TEST(Load, AnyAlignmentGivesEqualBits) {
  const auto config = load_config(kFp8).value();
  const auto tensors = read_all(kFp8);
  const auto expected = logits_of(kFp8, config);
  for (const char* padding : {" ", "  ", "   ", "    "}) EXPECT_EQ(logits_of(tensors, config, padding), expected);
}

/// A value of exponent range and precision that bf16, f16 and f32 share.
TEST(Load, NormsAndRouterMayBeWider) {
  const auto config = load_config(kRandom).value();
  auto tensors = read_all(kRandom);
  for (NamedTensor& tensor : tensors) {
    if (tensor.name.find("norm") == std::string::npos && !tensor.name.ends_with("mlp.gate.weight")) continue;
    std::string wide;
    for (size_t i = 0; i < tensor.data.size(); i += 2) wide += std::string(2, '\0') + tensor.data.substr(i, 2);
    tensor.data = wide;
    tensor.dtype = "F32";
  }
  EXPECT_EQ(logits_of(tensors, config), logits_of(kRandom, config));
  NamedTensor& norm = find(tensors, "model.norm.weight");
  norm.dtype = "BF16";
  norm.data.clear();
  for (int i = 0; i < 128; ++i) norm.data += std::string("\x20\x3f", 2);  // 0.625
  const auto expected = logits_of(tensors, config);
  norm.dtype = "F16";
  norm.data.clear();
  for (int i = 0; i < 128; ++i) norm.data += std::string("\x00\x39", 2);
  EXPECT_EQ(logits_of(tensors, config), expected);
}

// --- dummy weights

TEST(Dummy, IsAFunctionOfTheSeedAndEqualForEverySharding) {
  for (const fs::path& folder : {kRandom, kFp8}) {
    const auto config = load_config(folder).value();
    const auto one = logits_of("none", config, LoadFormat::dummy);
    EXPECT_TRUE(std::all_of(one.begin(), one.end(), [](float value) { return std::isfinite(value); }));
    EXPECT_NE(*std::min_element(one.begin(), one.end()), *std::max_element(one.begin(), one.end()));
    EXPECT_EQ(one, logits_of("none", config, LoadFormat::dummy, 4));
  }
  const TensorSpec matrix{"w", Role::bf16, {512, 256}}, other{"v", Role::bf16, {512, 256}};
  const auto bits = [](uint64_t seed, const TensorSpec& spec) {
    const auto weight = dummy_source(seed)->read(spec, {});
    return std::string(reinterpret_cast<const char*>(weight.view.data), static_cast<size_t>(weight.view.bytes()));
  };
  EXPECT_EQ(bits(1, matrix), bits(1, matrix));
  EXPECT_NE(bits(1, matrix), bits(2, matrix));
  EXPECT_NE(bits(1, matrix), bits(1, other));
}

TEST(Dummy, HasTheSpreadOfRealWeights) {
  const auto weight = dummy_source(3)->read({"w", Role::bf16, {512, 512}}, {});
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < weight.view.elements(); ++i) {
    const double value = quant::to_float(weight.view.as<quant::Bf16>()[i]);
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(weight.view.elements());
  EXPECT_NEAR(sum / count, 0, 5 * 0.02 / std::sqrt(count));  // five standard errors
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 1e-4);
  const auto codes = dummy_source(3)->read({"w", Role::fp8, {512, 512}}, {});
  int seen[256] = {};
  for (int64_t i = 0; i < codes.view.elements(); ++i) ++seen[codes.view.as<quant::E4m3>()[i].bits];
  EXPECT_EQ(seen[0x7F] + seen[0xFF], 0);
  EXPECT_GT(*std::min_element(seen, seen + 0x7F), 700);  // 1024 expected
}

TEST(Dummy, SlicesOfAFusedTensorAreItsParts) {
  const TensorSpec spec{"w", Role::bf16, {3, 5, 7}};
  const auto source = dummy_source(9);
  const auto whole = source->read(spec, {});
  for (int64_t slice = 0; slice < 3; ++slice) {
    const auto part = source->read(spec, slice);
    EXPECT_EQ(std::memcmp(part.view.data, whole.view.data + slice * 70, 70), 0);
  }
}

}  // namespace
}  // namespace hocket::model
