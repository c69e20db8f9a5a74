#include "engine/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dbo/cut.h"
#include "device/cpu/seeded.h"

namespace hocket::engine {
namespace {

using testing::ElementsAre;

template <class T>
std::vector<T> values(const device::TensorView& view) {
  const T* data = view.as<T>();
  return {data, data + view.elements()};
}

struct Request {
  int64_t computed;
  std::vector<int32_t> tokens, blocks;
};

class BatchTest : public testing::Test {
 protected:
  dbo::StepPlan plan_of(const std::vector<Request>& requests) {
    dbo::StepPlan plan;
    for (const Request& r : requests) {
      plan.rows.push_back({.request = 1,
                           .computed = r.computed,
                           .query = static_cast<int64_t>(r.tokens.size()),
                           .blocks = r.blocks,
                           .tokens = r.tokens,
                           .samples = true});
    }
    return plan;
  }
  UbatchBatch build(const dbo::StepPlan& plan, dbo::TokenRange range) {
    ub_.tokens = range;
    return build_batch(ub_, plan, 16, 8);
  }
  device::cpu::SeededDevice device_{1};
  std::unique_ptr<device::Stream> compute_ = device_.make_stream("compute");
  device::Arena arena_{1 << 20};
  dbo::Ubatch ub_{.compute = *compute_, .comm = *compute_, .arena = arena_};
};

// Oracle 1 of docs/dbo.md, "The continuation": p=24, q=8, cut at 4, block row [7, 3].
TEST_F(BatchTest, AContinuationIsAChunkOfAChunkedPrefill) {
  const std::vector<Request> requests{{24, {10, 11, 12, 13, 14, 15, 16, 17}, {7, 3}}};
  const dbo::StepPlan plan = plan_of(requests);
  const UbatchBatch first = build(plan, {0, 4});
  EXPECT_THAT(values<int32_t>(first.batch.attention.positions), ElementsAre(24, 25, 26, 27));
  EXPECT_THAT(values<int32_t>(first.batch.attention.slots), ElementsAre(56, 57, 58, 59));
  EXPECT_THAT(values<int32_t>(first.batch.attention.seq_lens), ElementsAre(28));
  EXPECT_THAT(values<int32_t>(first.batch.ids), ElementsAre(10, 11, 12, 13));
  EXPECT_TRUE(first.logit_rows.empty());
  const UbatchBatch second = build(plan, {4, 8});
  EXPECT_THAT(values<int32_t>(second.batch.attention.positions), ElementsAre(28, 29, 30, 31));
  EXPECT_THAT(values<int32_t>(second.batch.attention.slots), ElementsAre(60, 61, 62, 63));
  EXPECT_THAT(values<int32_t>(second.batch.attention.seq_lens), ElementsAre(32));
  ASSERT_EQ(second.logit_rows.size(), 1U);
  EXPECT_EQ(second.logit_rows[0].token_row, 3);
}

// Oracle 3: query 5 and 3, computed 0 and 10, cut at 4.
TEST_F(BatchTest, QueryStartsAreRebasedPerUbatch) {
  const std::vector<Request> requests{{0, {1, 2, 3, 4, 5}, {0}}, {10, {6, 7, 8}, {1}}};
  const dbo::StepPlan plan = plan_of(requests);
  const UbatchBatch first = build(plan, {0, 4});
  EXPECT_THAT(values<int32_t>(first.batch.attention.query_start), ElementsAre(0, 4));
  EXPECT_THAT(values<int32_t>(first.batch.attention.seq_lens), ElementsAre(4));
  const UbatchBatch second = build(plan, {4, 8});
  EXPECT_THAT(values<int32_t>(second.batch.attention.query_start), ElementsAre(0, 1, 4));
  EXPECT_THAT(values<int32_t>(second.batch.attention.seq_lens), ElementsAre(5, 13));
  EXPECT_THAT(values<int32_t>(second.batch.attention.positions), ElementsAre(4, 10, 11, 12));
  EXPECT_EQ(second.batch.attention.attention_pairs, 5 + 11 + 12 + 13);
  ASSERT_EQ(second.logit_rows.size(), 2U);
  EXPECT_EQ(second.logit_rows[0].token_row, 0);
  EXPECT_EQ(second.logit_rows[1].token_row, 3);
}

// Oracle 4: one request of 9 tokens over three ubatches. Fault SP-05: the middle piece's KV length.
TEST_F(BatchTest, SP05_PiecesOfThreeAreContiguous) {
  const std::vector<Request> requests{{0, {1, 2, 3, 4, 5, 6, 7, 8, 9}, {4}}};
  const dbo::StepPlan plan = plan_of(requests);
  int32_t expected = 0;
  for (int i = 0; i < 3; ++i) {
    const UbatchBatch part = build(plan, {3 * i, 3 * i + 3});
    for (int32_t position : values<int32_t>(part.batch.attention.positions)) EXPECT_EQ(position, expected++);
    EXPECT_THAT(values<int32_t>(part.batch.attention.seq_lens), ElementsAre(3 * i + 3));
  }
}

TEST_F(BatchTest, AnEmptyUbatchHasNoPartsAndNoRows) {
  const std::vector<Request> requests{{0, {1}, {0}}};
  const UbatchBatch empty = build(plan_of(requests), {0, 0});
  EXPECT_EQ(empty.batch.ids.elements(), 0);
  EXPECT_EQ(empty.batch.attention.seq_lens.elements(), 0);
  EXPECT_TRUE(empty.logit_rows.empty());
}

TEST_F(BatchTest, TheArenaBoundHolds) {
  std::vector<Request> requests;
  for (int i = 0; i < 20; ++i) requests.push_back({100, {1, 2, 3}, {1, 2, 3, 4, 5, 6, 7}});
  const dbo::StepPlan plan = plan_of(requests);
  build(plan, {0, 60});
  EXPECT_LE(arena_.used(), batch_bytes(60, 20, 7, 20, 8));
}

}  // namespace
}  // namespace hocket::engine
