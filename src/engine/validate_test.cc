#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/config.h"

namespace hocket::engine {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

model::ModelConfig tiny() {
  model::ModelConfig m;
  m.name = "tiny";
  m.layers = 4;
  m.kv_heads = 2;
  m.head_dim = 64;
  m.experts = 16;
  m.max_positions = 4096;
  return m;
}

Config good() {
  Config c;
  c.data_parallel = 2;
  c.expert_parallel = true;
  return c;
}

TEST(Validate, TheDefaultsWork) { EXPECT_THAT(validate(good(), tiny()), IsEmpty()); }

TEST(Validate, DboWhereItCannotEngageSaysWhy) {
  Config c = good();
  c.dbo = Switch::on;
  c.expert_parallel = false;
  EXPECT_THAT(validate(c, tiny()),
              ElementsAre("configuration error: --enable-dbo needs --enable-expert-parallel. DBO hides the expert-parallel "
                          "exchange; without it there is nothing to hide. Add --enable-expert-parallel or remove "
                          "--enable-dbo."));
  c = good();
  c.dbo = Switch::on;
  c.data_parallel = 1;
  EXPECT_THAT(validate(c, tiny()),
              ElementsAre("configuration error: --enable-dbo needs at least 2 ranks, but --data-parallel-size is 1. Set "
                          "--data-parallel-size to 2 or more, or remove --enable-dbo."));
  c = good();
  c.dbo = Switch::on;
  model::ModelConfig dense = tiny();
  dense.experts = 0;
  dense.name = "Qwen3-8B";
  EXPECT_THAT(validate(c, dense),
              Contains("configuration error: --enable-dbo needs a mixture-of-experts model, but Qwen3-8B has no expert "
                       "layers. Remove --enable-dbo."));
}

TEST(Validate, FlagsWithoutEffectAreRefused) {
  Config c = good();
  c.dbo = Switch::off;
  c.ubatches = 2;
  EXPECT_THAT(validate(c, tiny()), ElementsAre("configuration error: --ubatch-size 2 with --no-enable-dbo has no effect. "
                                               "Remove one of the two."));
  c = good();
  c.dbo = Switch::on;
  c.ubatches = 1;
  EXPECT_THAT(validate(c, tiny()), SizeIs(1));
}

TEST(Validate, AllErrorsComeAtOnce) {
  Config c = good();
  c.data_parallel = 3;
  c.block_size = 20;
  c.max_seqs = 0;
  c.max_model_len = 300000;
  const auto errors = validate(c, tiny());
  EXPECT_THAT(errors, Contains("configuration error: 16 experts cannot be spread evenly over 3 expert-parallel ranks. "
                               "Choose a size that divides 16."));
  EXPECT_THAT(errors, Contains("configuration error: --max-model-len 300000 exceeds the model's 4096 positions "
                               "(max_position_embeddings)."));
  EXPECT_THAT(errors, Contains("configuration error: --block-size 20: expected a multiple of 16 from 16 to 1024."));
}

TEST(Validate, AKvCacheSmallerThanTheContextIsRefused) {
  Config c = good();
  c.kv_blocks = 100;
  EXPECT_THAT(validate(c, tiny()),
              ElementsAre("configuration error: the KV cache holds 1600 tokens, less than --max-model-len 4096. Raise "
                          "--kv-cache-memory-bytes or set --max-model-len 1600."));
  c.max_batched_tokens = 8;
  c.kv_blocks.reset();
  EXPECT_THAT(validate(c, tiny()),
              ElementsAre("configuration error: --max-num-batched-tokens 8 is below --block-size 16."));
}

}  // namespace
}  // namespace hocket::engine
