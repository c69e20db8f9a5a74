#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/test_support.h"

namespace hocket::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// Qwen3-30B-A3B as published, in the classic spelling.
Json classic() {
  return Json::parse(R"({"model_type":"qwen3_moe","hidden_size":2048,"num_hidden_layers":48,"num_attention_heads":32,
    "num_key_value_heads":4,"head_dim":128,"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,
    "intermediate_size":6144,"vocab_size":151936,"max_position_embeddings":262144,"norm_topk_prob":true,
    "rope_theta":10000000,"rope_scaling":null,"rms_norm_eps":1e-6,"torch_dtype":"bfloat16","hidden_act":"silu",
    "tie_word_embeddings":false,"sliding_window":null,"use_sliding_window":false,"attention_bias":false,
    "mlp_only_layers":[],"decoder_sparse_step":1,"eos_token_id":151645,"bos_token_id":151643})");
}

/// The same, as transformers 5 writes it.
Json modern() {
  Json json = classic();
  for (const char* key : {"num_experts", "rope_theta", "rope_scaling", "torch_dtype"}) json.erase(key);
  json["num_local_experts"] = 128;
  json["rope_parameters"] = {{"rope_theta", 1e7}, {"rope_type", "default"}};
  json["dtype"] = "bfloat16";
  return json;
}

Json fp8() {
  return {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
}

Expected<ModelConfig> parse(const Json& json) { return parse_config(json.dump(), "m"); }

TEST(Config, BothSpellingsMeanTheSame) {
  for (const Json& json : {classic(), modern()}) {
    const auto config = parse(json);
    ASSERT_TRUE(config.has_value()) << config.error().message;
    EXPECT_EQ(config->experts, 128);
    EXPECT_EQ(config->top_k, 8);
    EXPECT_EQ(config->rope_theta, 1e7);
    EXPECT_EQ(config->head_dim, 128);
    EXPECT_TRUE(config->normalize_top_k);
    EXPECT_EQ(config->format, ops::WeightFormat::bf16);
    EXPECT_THAT(config->eos_ids, ElementsAre(151645));
    EXPECT_EQ(config->bos_id, 151643);
    EXPECT_EQ(config->total_parameters(), 30'532'122'624);  // published: 30.5 B
    EXPECT_NEAR(static_cast<double>(config->active_parameters()), 3.35e9, 0.02e9);  // published: 3.3 B
    EXPECT_EQ(config->kv_bytes_per_token(), 98'304);
  }
}

TEST(Config, EqualValuesUnderBothSpellingsAreAccepted) {
  Json json = classic();
  json.update({{"num_local_experts", 128}, {"dtype", "bfloat16"}, {"rope_parameters", {{"rope_theta", 1e7}}}});
  EXPECT_TRUE(parse(json).has_value());
}

TEST(Config, DefaultsAreThoseOfTheArchitecture) {
  Json json = classic();
  for (const char* key : {"norm_topk_prob", "rope_theta", "rms_norm_eps", "torch_dtype", "hidden_act", "head_dim",
                          "tie_word_embeddings", "mlp_only_layers", "decoder_sparse_step", "intermediate_size",
                          "eos_token_id", "num_key_value_heads"}) {
    json.erase(key);
  }
  json["bos_token_id"] = nullptr;
  const auto config = parse(json);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_FALSE(config->normalize_top_k);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_EQ(config->rope_theta, 10000);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->kv_heads, 32);
  EXPECT_TRUE(config->eos_ids.empty());
  EXPECT_FALSE(config->bos_id.has_value());
}

TEST(Config, DenseLayersComeFromTheListAndTheStep) {
  Json json = classic();
  json.update({{"num_hidden_layers", 6}, {"mlp_only_layers", {1}}, {"decoder_sparse_step", 2}});
  const auto dense = LayerKind::dense, moe = LayerKind::moe;
  EXPECT_THAT(parse(json)->kinds, ElementsAre(dense, dense, dense, moe, dense, moe));
}

TEST(Config, RopeByLayerTypeIsAcceptedIfAllAgree) {
  Json json = modern();
  const Json one = {{"rope_theta", 5e6}, {"rope_type", "default"}};
  json["rope_parameters"] = {{"full_attention", one}, {"other", one}};
  EXPECT_EQ(parse(json)->rope_theta, 5e6);
  json["rope_parameters"]["other"]["rope_theta"] = 1e4;
  EXPECT_THAT(parse(json).error().message, HasSubstr("rope_parameters of"));
}

TEST(Config, ReadsFp8AndWhatItLeavesOut) {
  Json json = classic();
  json["quantization_config"] = fp8();
  json["quantization_config"]["modules_to_not_convert"] = {"lm_head"};
  json["quantization_config"]["ignored_layers"] = {"model.layers.0.mlp.gate"};
  const auto config = parse(json);
  ASSERT_TRUE(config.has_value()) << config.error().message;
  EXPECT_EQ(config->format, ops::WeightFormat::fp8_block);
  EXPECT_THAT(config->unquantized, ElementsAre("lm_head", "model.layers.0.mlp.gate"));
}

struct Refusal {
  Json change;  ///< merged into the classic config; null removes
  std::vector<std::string> named;
};

TEST(Config, RefusesInOneLineThatNamesTheKeyAndTheValues) {
  const auto quant = [](const Json& change) {
    Json section = fp8();
    section.merge_patch(change);
    return Json{{"quantization_config", section}};
  };
  const Refusal refusals[] = {
      {{{"model_type", "mixtral"}}, {"model_type \"mixtral\" is not supported. Supported: qwen3_moe."}},
      {{{"model_type", nullptr}}, {"model_type is missing"}},
      {{{"text_config", {{"hidden_size", 8}}}}, {"text_config", "multi-modal"}},
      {{{"hidden_act", "gelu"}}, {"hidden_act \"gelu\"", "silu"}},
      {{{"torch_dtype", "float16"}}, {"dtype \"float16\"", "bfloat16"}},
      {{{"dtype", "float32"}}, {"dtype", "torch_dtype", "differ"}},
      {{{"attention_bias", true}}, {"attention_bias"}},
      {{{"use_sliding_window", true}}, {"sliding window"}},
      {{{"layer_types", {"full_attention", "sliding_attention"}}}, {"sliding_attention"}},
      {{{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}}, {"rope_scaling \"yarn\" is not supported"}},
      {{{"rope_scaling", {{"rope_type", "llama3"}}}}, {"\"llama3\""}},
      {{{"rope_scaling", {{"factor", 4}}}}, {"rope_scaling"}},
      {{{"rope_parameters", {{"rope_type", "yarn"}}}}, {"\"yarn\""}},
      {{{"rope_parameters", {{"rope_theta", 5}}}}, {"rope_theta 10000000", "rope_parameters.rope_theta 5", "differ"}},
      {{{"partial_rotary_factor", 0.5}}, {"partial_rotary_factor"}},
      {{{"num_local_experts", 64}}, {"num_experts 128 and num_local_experts 64 differ"}},
      {{{"num_experts", nullptr}}, {"num_experts is missing"}},
      {{{"hidden_size", "2048"}}, {"hidden_size is \"2048\""}},
      {{{"hidden_size", 2048.5}}, {"hidden_size is 2048.5"}},
      {{{"hidden_size", -1}}, {"hidden_size is -1"}},
      {{{"hidden_size", 18446744073709551615ULL}}, {"hidden_size is 18446744073709551615"}},
      {{{"hidden_size", 2056}}, {"hidden_size 2056 is not a multiple of 16"}},
      {{{"moe_intermediate_size", 40}}, {"moe_intermediate_size 40 is not a multiple of 16"}},
      {{{"head_dim", 24}}, {"head_dim 24 is not a multiple of 16"}},
      {{{"num_key_value_heads", 5}}, {"num_attention_heads 32 is not a multiple of num_key_value_heads 5"}},
      {{{"num_experts", 4}}, {"num_experts_per_tok 8 exceeds num_experts 4"}},
      {{{"num_experts_per_tok", 33}}, {"num_experts_per_tok is 33", "1 to 32"}},
      {{{"rms_norm_eps", 0}}, {"rms_norm_eps is 0"}},
      {{{"norm_topk_prob", 1}}, {"norm_topk_prob is 1", "true or false"}},
      {{{"mlp_only_layers", {0}}, {"intermediate_size", nullptr}}, {"intermediate_size is missing"}},
      {{{"mlp_only_layers", {"0"}}}, {"mlp_only_layers holds \"0\""}},
      {{{"eos_token_id", {1, -2}}}, {"eos_token_id holds -2"}},
      {quant({{"quant_method", "gptq"}}), {"quantization_config: quantization \"gptq\" is not supported", "Supported: fp8"}},
      {quant({{"quant_method", "mxfp4"}}), {"\"mxfp4\""}},
      {quant({{"quant_method", nullptr}, {"quant_algo", "NVFP4"}}), {"\"NVFP4\""}},
      {quant({{"fmt", "e5m2"}}), {"fmt \"e5m2\""}},
      {quant({{"activation_scheme", "static"}}), {"activation_scheme \"static\""}},
      {quant({{"weight_block_size", {64, 64}}}), {"weight_block_size [64,64]"}},
      {quant({{"weight_block_size", nullptr}}), {"weight_block_size (none)"}},
  };
  for (const Refusal& refusal : refusals) {
    Json json = classic();
    json.merge_patch(refusal.change);
    const auto config = parse(json);
    ASSERT_FALSE(config.has_value()) << refusal.change;
    EXPECT_THAT(config.error().message, ::testing::StartsWith("m/config.json: "));
    for (const std::string& part : refusal.named) EXPECT_THAT(config.error().message, HasSubstr(part));
    EXPECT_EQ(config.error().message.find('\n'), std::string::npos) << config.error().message;
  }
}

TEST(Config, RefusesWhatIsNoJsonObject) {
  for (const char* text : {"", "[]", "{\"a\":", "\xff"}) {
    EXPECT_THAT(parse_config(text, "m").error().message, HasSubstr("m/config.json: ")) << text;
  }
}

TEST(Config, EndIdsAreTheUnionOfBothFiles) {
  const testing::TempFolder folder;
  folder.write("config.json", classic().dump());
  folder.write("generation_config.json", R"({"eos_token_id":[7,151645]})");
  EXPECT_THAT(load_config(folder.path())->eos_ids, ElementsAre(151645, 7));
  EXPECT_EQ(load_config(folder.path() / "")->name, folder.path().filename());
  folder.write("generation_config.json", R"({"eos_token_id":"x"})");
  EXPECT_THAT(load_config(folder.path()).error().message, HasSubstr("generation_config.json: eos_token_id"));
  EXPECT_THAT(load_config(folder.path() / "none").error().message, HasSubstr("none/config.json: cannot be read"));
}

TEST(Config, ReadsTheBundledModels) {
  const std::filesystem::path root = HOCKET_SOURCE_DIR;
  const auto tiny = load_config(root / "models/tiny-moe-fp8").value();
  EXPECT_EQ(tiny.total_parameters(), 7'883'520);  // metadata.total_parameters of tiny-moe-bf16's index
  EXPECT_EQ(tiny.active_parameters(), 3'164'928);
  EXPECT_EQ(tiny.kv_bytes_per_token(), 2'048);
  EXPECT_THAT(tiny.eos_ids, ElementsAre(764, 762));
  const auto random = load_config(root / "test/data/qwen3-moe-random").value();
  EXPECT_EQ(random.kinds[1], LayerKind::dense);
}

}  // namespace
}  // namespace hocket::model
