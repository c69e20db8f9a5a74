#include "comm/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace hocket::comm {
namespace {

using testing::HasSubstr;

Config small(int ranks = 2) {
  return {.rank = 0, .ranks = ranks, .experts = 12, .top_k = 3, .hidden = 32, .max_tokens = 16};
}

TEST(Epoch, TR30_TheErrorOfARoundDoesNotReachTheNext) {
  for (const uint64_t round : {uint64_t{1}, uint64_t{255}, uint64_t{256}, (uint64_t{1} << 32) - 1, (uint64_t{1} << 40) - 2}) {
    for (const uint64_t generation : {0, 1, 0x7FFF}) {
      const uint64_t epoch = epoch_of(generation, round);
      for (int code = 0; code <= 255; ++code) {
        const uint64_t word = word_of(epoch, static_cast<Code>(code));
        EXPECT_TRUE(reached(word, epoch));
        EXPECT_FALSE(reached(word, epoch_of(generation, round + 1)));
        EXPECT_EQ(code_of(word), static_cast<Code>(code));
        EXPECT_EQ(word >> 63, 0U);
      }
      EXPECT_EQ(round_of(epoch), round);
      if (generation < 0x7FFF) {  // a late word of an old generation does nothing
        EXPECT_FALSE(reached(word_of(epoch, Code::aborted), epoch_of(generation + 1, 1)));
      }
    }
  }
  EXPECT_FALSE(reached(0, epoch_of(0, 1)));
}

TEST(Config, EachFieldOutOfRangeIsNamed) {
  const auto refused = [](auto change) {
    Config config = small();
    change(config);
    const Expected<void> good = validate(config);
    EXPECT_FALSE(good.has_value());
    return good ? std::string() : good.error().message;
  };
  EXPECT_TRUE(validate(small()).has_value());
  EXPECT_THAT(refused([](Config& c) { c.ranks = 0; }), HasSubstr("ranks = 0"));
  EXPECT_THAT(refused([](Config& c) { c.ranks = 65; }), HasSubstr("ranks = 65"));
  EXPECT_THAT(refused([](Config& c) { c.rank = 2; }), HasSubstr("rank = 2, must be 0..1"));
  EXPECT_THAT(refused([](Config& c) { c.experts = 2050; }), HasSubstr("experts = 2050"));
  EXPECT_THAT(refused([](Config& c) { c.experts = 13; }), HasSubstr("experts = 13, must be a multiple of ranks (2)"));
  EXPECT_THAT(refused([](Config& c) { c.top_k = 0; }), HasSubstr("top_k = 0"));    // TR-27
  EXPECT_THAT(refused([](Config& c) { c.top_k = 33; }), HasSubstr("top_k = 33"));  // TR-19
  EXPECT_THAT(refused([](Config& c) { c.hidden = 0; }), HasSubstr("hidden = 0"));
  EXPECT_THAT(refused([](Config& c) { c.hidden = 2888; }), HasSubstr("hidden = 2888"));  // TR-17
  EXPECT_THAT(refused([](Config& c) { c.max_tokens = 0; }), HasSubstr("max_tokens = 0"));
  EXPECT_THAT(refused([](Config& c) { c.max_ubatches = 9; }), HasSubstr("max_ubatches = 9"));
  EXPECT_THAT(refused([](Config& c) { c.slots_per_ubatch = 0; }), HasSubstr("slots_per_ubatch = 0"));
  EXPECT_THAT(refused([](Config& c) { c.expert_align = 3; }), HasSubstr("expert_align = 3"));
  EXPECT_THAT(refused([](Config& c) { c.timeout = {}; }), HasSubstr("timeout"));
  EXPECT_THAT(refused([](Config& c) { c.ranks = c.experts = 64, c.max_tokens = 1 << 20, c.top_k = 32; c.experts = 2048; }),
              HasSubstr("rows that can arrive"));
}

TEST(Config, EachDifferenceIsNamedWithBothValues) {
  const auto differs = [](auto change) {
    const Config a = small();
    Config b = small();
    b.rank = 1;
    change(b);
    return difference(a, b);
  };
  EXPECT_EQ(differs([](Config&) {}), "");
  EXPECT_THAT(differs([](Config& c) { c.ranks = 3; }), HasSubstr("ranks is 2 on rank 0 and 3 on rank 1"));
  EXPECT_THAT(differs([](Config& c) { c.experts = 24; }), HasSubstr("experts is 12 on rank 0 and 24 on rank 1"));
  EXPECT_THAT(differs([](Config& c) { c.top_k = 4; }), HasSubstr("top_k is 3"));
  EXPECT_THAT(differs([](Config& c) { c.hidden = 64; }), HasSubstr("hidden is 32"));
  EXPECT_THAT(differs([](Config& c) { c.max_tokens = 128; }), HasSubstr("max_tokens is 16 on rank 0 and 128"));
  EXPECT_THAT(differs([](Config& c) { c.max_ubatches = 1; }), HasSubstr("max_ubatches is 2"));
  EXPECT_THAT(differs([](Config& c) { c.slots_per_ubatch = 1; }), HasSubstr("slots_per_ubatch is 2"));
  EXPECT_THAT(differs([](Config& c) { c.expert_align = 2; }), HasSubstr("expert_align is 1"));
  EXPECT_THAT(differs([](Config& c) { c.backend = Backend::allgather; }),
              HasSubstr("backend is high_throughput on rank 0 and allgather on rank 1"));
  EXPECT_THAT(differs([](Config& c) { c.wire = Wire::fp8_f32; }), HasSubstr("wire is bf16 on rank 0 and fp8_f32"));
  EXPECT_THAT(differs([](Config& c) { c.timeout = std::chrono::seconds(1); }), HasSubstr("timeout in ms is 10000"));
  EXPECT_THAT(differs([](Config& c) { c.open_timeout = std::chrono::seconds(1); }), HasSubstr("open_timeout in ms"));
}

TEST(Backend, AcceptsTheNamesOfVllm) {
  for (const char* text : {"high_throughput", "ht", "deepep_high_throughput"}) {
    EXPECT_EQ(parse_backend(text).value(), Backend::high_throughput);
  }
  for (const char* text : {"low_latency", "ll", "deepep_low_latency"}) {
    EXPECT_EQ(parse_backend(text).value(), Backend::low_latency);
  }
  for (const char* text : {"allgather", "allgather_reducescatter", "naive"}) {
    EXPECT_EQ(parse_backend(text).value(), Backend::allgather);
  }
  EXPECT_THAT(parse_backend("pplx").error().message, HasSubstr("'pplx'"));
}

TEST(Plan, PlacesAreStablePrefixSums) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const int ranks = std::array{1, 2, 3, 4, 6, 12}[random() % 6];
    const Config config = small(ranks);
    const auto tokens = static_cast<int64_t>(random() % 17);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < tokens * config.top_k; ++i) ids.push_back(static_cast<int32_t>(random() % 13) - 1);
    Plan plan(config);
    ASSERT_EQ(plan.build(ids.data(), tokens), Code::ok);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int32_t> rows, counts(static_cast<size_t>(config.local_experts()));
      int32_t answers = 0;
      for (int32_t t = 0; t < tokens; ++t) {
        std::vector<int32_t> seen;
        for (int j = 0; j < config.top_k; ++j) {
          const int32_t id = ids[static_cast<size_t>(t * config.top_k + j)];
          if (id < 0) {
            EXPECT_EQ(plan.answer(t, j), -1);
          } else if (id / config.local_experts() == rank && !testing::Value(seen, testing::Contains(id))) {
            seen.push_back(id);
            ++counts[static_cast<size_t>(id % config.local_experts())];
            EXPECT_EQ(plan.answer(t, j), answers++);
          }
        }
        if (!seen.empty()) rows.push_back(t);
      }
      EXPECT_THAT(plan.rows_to(rank), testing::ElementsAreArray(rows));
      EXPECT_THAT(plan.counts(rank), testing::ElementsAreArray(counts));
    }
  }
}

TEST(Plan, TR20_NoForeignIdBecomesAnIndex) {
  const Config config = small();
  Plan plan(config);
  for (const int32_t id : {-2, 12, INT32_MAX, INT32_MIN}) {
    std::vector<int32_t> ids(3 * 5, 1);
    ids[7] = id;
    EXPECT_EQ(plan.build(ids.data(), 5), Code::bad_id);
    EXPECT_TRUE(plan.rows_to(0).empty());
    EXPECT_EQ(plan.tokens(), 0);
  }
  const std::vector<int32_t> many(3 * 17, 1);
  EXPECT_EQ(plan.build(many.data(), 17), Code::capacity);
  EXPECT_EQ(plan.build(many.data(), 16), Code::ok);
}

TEST(Inbound, RefusesCountsThatCannotBe) {
  const Config config = small();
  Inbound inbound(config);
  const std::array<int32_t, 6> ids{0, 1, 2, 0, 7, 8};  // two rows; local experts of rank 0 are 0..5
  std::array<int32_t, 6> counts{2, 1, 1, 0, 0, 0};
  std::array<SourceRows, 2> sources{};
  sources[1] = {.rows = 2, .ids = reinterpret_cast<const std::byte*>(ids.data()), .ids_stride = 12, .counts = counts.data()};
  inbound.set_counts(sources);
  inbound.place(1, sources[1]);
  EXPECT_EQ(inbound.entries(1).size(), 4U);
  counts[3] = 1;  // more than come
  inbound.set_counts(sources);
  EXPECT_THROW(inbound.place(1, sources[1]), InvariantError);
  counts = {1, 1, 1, 0, 0, 0};  // fewer than come
  inbound.set_counts(sources);
  EXPECT_THROW(inbound.place(1, sources[1]), InvariantError);
  counts[0] = 3;
  EXPECT_THROW(inbound.set_counts(sources), InvariantError);
  counts[0] = -1;
  EXPECT_THROW(inbound.set_counts(sources), InvariantError);
  sources[1].rows = 17;
  EXPECT_THROW(inbound.set_counts(sources), InvariantError);
}

}  // namespace
}  // namespace hocket::comm
