// Presets against arithmetic on the public configurations, and files that users write.
#include "sim/model_spec.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "sim/hardware.h"
#include "sim/routing.h"

namespace hocket::sim {
namespace {

TEST(ModelSpec, PresetsHaveThePublishedCosts) {
  struct Row {
    const char* name;
    double projections, experts;   // MFLOP a token and layer
    double prefill, decode;        // FLOP a token, key and layer
    double kv, dispatch, combine;  // bytes
    double billions;
  };
  for (const Row& row : {Row{"qwen3-30b-a3b", 37.7, 75.5, 16384, 16384, 2048, 2112, 4096, 30.5},
                         Row{"Qwen3-235B-A22B", 142.6, 302.0, 32768, 32768, 2048, 4224, 8192, 235},
                         Row{"deepseek-v3", 374.2, 792.7, 81920, 278528, 1152, 7392, 14336, 671},
                         Row{"gpt-oss-120b", 53.1, 199.1, 16384, 16384, 2048, 5760, 5760, 117}}) {
    const auto spec = load_model_spec(row.name);
    ASSERT_TRUE(spec) << row.name;
    EXPECT_NEAR(spec->attention_weights() * 2e-6, row.projections, 0.06) << row.name;
    const double shared = 6e-6 * static_cast<double>(spec->hidden * spec->shared_width);
    EXPECT_NEAR(2e-6 * spec->expert_weights() * static_cast<double>(spec->top_k) + shared,
                row.experts, 0.06);
    EXPECT_EQ(spec->core_flops(ModelSpec::Form::prefill), row.prefill);
    EXPECT_EQ(spec->core_flops(ModelSpec::Form::decode), row.decode);
    EXPECT_EQ(spec->kv_bytes(), row.kv);
    EXPECT_EQ(spec->dispatch_row_bytes(), row.dispatch);
    EXPECT_EQ(spec->combine_row_bytes(), row.combine);
    EXPECT_NEAR(spec->parameters() / 1e9 / row.billions, 1, 0.005) << row.name;
  }
}

// Distinct ranks that a token reaches.
TEST(Routing, UniformReachesTheComputedNumberOfRanks) {
  const auto distinct = [](const char* model, int ranks) {
    return route(*load_model_spec(model), ranks, 8, {}).distinct();
  };
  EXPECT_NEAR(distinct("qwen3-30b-a3b", 4), 3.629, 0.0005);
  EXPECT_NEAR(distinct("qwen3-30b-a3b", 8), 5.339, 0.0005);
  EXPECT_NEAR(distinct("deepseek-v3", 4), 2.928, 0.0005);
  EXPECT_NEAR(distinct("deepseek-v3", 8), 3.629, 0.0005);
  EXPECT_NEAR(distinct("gpt-oss-120b", 4), 2.754, 0.0005);
  EXPECT_NEAR(distinct("gpt-oss-120b", 8), 3.3425, 0.0005);
}

TEST(Routing, ZipfWithExponentZeroIsNearlyUniform) {
  const ModelSpec model = *load_model_spec("qwen3-30b-a3b");
  const Routing drawn = route(model, 4, 8, {RoutingKind::zipf, 0});
  EXPECT_NEAR(drawn.distinct(), 3.629, 0.02);
  EXPECT_NEAR(drawn.imbalance(), 1, 0.02);
  EXPECT_GT(route(model, 4, 8, {RoutingKind::zipf, 1.2}).imbalance(), 1.1);
  EXPECT_FALSE(parse_routing("zipf:x"));
  EXPECT_FALSE(parse_routing("normal"));
  EXPECT_EQ(name(*parse_routing("zipf:0.8")), "zipf:0.8");
}

TEST(ModelSpec, ReadsConfigFiles) {
  const auto spec = load_model_spec(HOCKET_SOURCE_DIR "/models/tiny-moe-fp8");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->name, "tiny-moe-fp8");
  EXPECT_EQ(spec->expert_format, Format::fp8);
  EXPECT_GT(spec->experts, 1);
  const auto deepseek = parse_model_spec(
      R"({"num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 129280, "n_group": 8,
          "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
          "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
          "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
          "moe_intermediate_size": 2048, "intermediate_size": 18432, "topk_group": 4,
          "first_k_dense_replace": 3, "quantization_config": {"quant_method": "fp8"}})",
      "mine");
  ASSERT_TRUE(deepseek);
  EXPECT_EQ(deepseek->parameters(), load_model_spec("deepseek-v3")->parameters());
}

TEST(ModelSpec, SaysWhatIsMissing) {
  EXPECT_EQ(parse_model_spec(R"({"hidden_size": 64})", "m").error().message,
            "model m has no expert layers; overlap needs their exchange. Use a mixture-of-experts "
            "model.");
  EXPECT_EQ(parse_model_spec(R"({"hidden_size": 64, "num_experts": 8})", "m").error().message,
            "model m: its config.json lacks num_hidden_layers.");
  EXPECT_EQ(parse_model_spec("[", "m").error().message,
            "model m: its config.json is not a JSON object.");
  EXPECT_NE(load_model_spec("qwen4").error().message.find("Presets: qwen3-30b-a3b, qwen3-235b"),
            std::string::npos);
}

class HardwareFile : public testing::Test {
 protected:
  Expected<Hardware> load(const std::string& text) {
    std::ofstream(path_) << text;
    return load_hardware(path_);
  }
  ~HardwareFile() override { std::remove(path_.c_str()); }
  const std::string path_ = testing::TempDir() + "my-box.yaml";
};

TEST_F(HardwareFile, ExtendsAPreset) {
  const auto hardware = load("base: h200\nlink_gb_s: 100\nlink_combine_gb_s: 90\n");
  ASSERT_TRUE(hardware) << hardware.error().message;
  EXPECT_EQ(hardware->name, "my-box");
  EXPECT_EQ(hardware->sms, 132);
  EXPECT_EQ(hardware->link_gb_s, 100);
}

TEST_F(HardwareFile, NamesKeyAndValue) {
  EXPECT_NE(load("base: h200\nsmss: 3\n").error().message.find("unknown key smss. Known: base"),
            std::string::npos);
  EXPECT_NE(load("base: h200\nsms: many\n").error().message.find("sms many: expected a number"),
            std::string::npos);
  EXPECT_NE(load("sms: 10\n").error().message.find("bf16_tflops must be above 0"),
            std::string::npos);
  EXPECT_NE(load_hardware("b300").error().message.find("Presets: h100-sxm, h800-sxm"),
            std::string::npos);
}

}  // namespace
}  // namespace hocket::sim
