// FP8 matrices whose sides are not multiples of 128, against the same model with zeros written out to the next multiple.
#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "model/forward_testing.h"
#include "model/source.h"
#include "model/test_support.h"

namespace hocket::model {
namespace {

using testing::NamedTensor;

ModelConfig config_of(int heads, int kv_heads, int expert_width, int dense_width) {
  const std::string json = fmt::format(
      R"({{"model_type":"qwen3_moe","hidden_size":128,"num_hidden_layers":2,"num_attention_heads":{},
      "num_key_value_heads":{},"head_dim":64,"num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":{},
      "intermediate_size":{},"mlp_only_layers":[1],"vocab_size":64,"max_position_embeddings":64,"quantization_config":
      {{"quant_method":"fp8","weight_block_size":[128,128]}}}})", heads, kv_heads, expert_width, dense_width);
  return parse_config(json, "ragged").value();
}

std::string stored_name(device::DType dtype) {
  return dtype == device::DType::e4m3 ? "F8_E4M3" : dtype == device::DType::bf16 ? "BF16" : "F32";
}

/// Dummy tensors, with a different FP8 scale in every block so that a mixed-up block shows.
std::vector<NamedTensor> tensors_of(const ModelConfig& config) {
  std::vector<NamedTensor> out;
  const auto source = dummy_source(5);
  float scale = 1e-3F;
  const Manifest manifest(config, ExpertLayout::per_expert);
  for (const TensorSpec& spec : manifest.specs()) {
    const auto weight = source->read(spec, {});
    if (spec.role == Role::scale) {
      for (int64_t i = 0; i < weight.view.elements(); ++i) weight.view.as<float>()[i] = scale *= 1.01F;
    }
    out.push_back({spec.name, stored_name(weight.view.dtype), spec.shape,
                   {reinterpret_cast<const char*>(weight.view.data), static_cast<size_t>(weight.view.bytes())}});
  }
  return out;
}

/// The tensor in the upper left corner of a larger one of zeros.
NamedTensor grown(const NamedTensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.shape == shape) return tensor;
  const auto width = static_cast<int64_t>(tensor.data.size()) / (tensor.shape[0] * tensor.shape[1]);
  NamedTensor out{tensor.name, tensor.dtype, shape, std::string(static_cast<size_t>(shape[0] * shape[1] * width), '\0')};
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    std::memcpy(&out.data[static_cast<size_t>(row * shape[1] * width)],
                &tensor.data[static_cast<size_t>(row * tensor.shape[1] * width)],
                static_cast<size_t>(tensor.shape[1] * width));
  }
  return out;
}

std::vector<float> logits_of(const std::vector<NamedTensor>& tensors, const ModelConfig& config) {
  const testing::TempFolder folder;
  folder.write("model.safetensors", testing::file_of(tensors));
  const std::vector<int32_t> prompt{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 32, 38, 46, 26, 43};
  const auto models = testing::load_ranks(folder.path(), config, 2);
  return testing::run_steps(models, {.ranks = 2, .ubatches = 2, .max_tokens = 20, .requests = 1}, {{{0, prompt}}})[0].at(0);
}

/// K and V of 64 rows cannot share a packed weight with Q, experts of 96 and a dense layer of 160 columns need padding.
/// The larger model has a second pair of heads that the output projection ignores, and neurons that are always zero.
TEST(Ragged, EqualsTheModelWithItsZerosWrittenOut) {
  const ModelConfig narrow = config_of(2, 1, 96, 160), wide = config_of(4, 2, 128, 256);
  const auto tensors = tensors_of(narrow);
  const Manifest larger(wide, ExpertLayout::per_expert);
  std::vector<NamedTensor> padded;
  for (const NamedTensor& tensor : tensors) padded.push_back(grown(tensor, larger.at(tensor.name).shape));
  const auto expected = logits_of(padded, wide);
  EXPECT_GT(*std::max_element(expected.begin(), expected.end()), 0.01F);
  EXPECT_EQ(logits_of(tensors, narrow), expected);
}

}  // namespace
}  // namespace hocket::model
