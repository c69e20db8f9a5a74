// The engine on the bundled model: what its callers rely on, whatever the configuration.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace hocket::engine {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::filesystem::path kModel = HOCKET_SOURCE_DIR "/models/tiny-moe-fp8";
constexpr auto kPatience = 60s;  // a bound on hangs, not a timing

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer it = std::move(*text::Tokenizer::load(kModel / "tokenizer.json"));
  return it;
}

class Answer final : public Sink {
 public:
  void on_output(Output output) noexcept override {
    const std::lock_guard lock(mutex_);
    if (output.token) ids_.push_back(*output.token);
    text_ += output.text;
    if (output.finish != FinishReason::none) last_ = std::move(output);
    changed_.notify_all();
  }
  /// Waits for the end.
  const Output& end() {
    std::unique_lock lock(mutex_);
    const bool ended = changed_.wait_for(lock, kPatience, [this] { return last_.finish != FinishReason::none; });
    EXPECT_TRUE(ended) << "the request did not end";
    return last_;
  }
  void wait_for_tokens(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return ids_.size() >= count; }));
  }
  std::vector<int32_t> ids() {
    end();
    return ids_;
  }
  std::string text() {
    end();
    return text_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int32_t> ids_;
  std::string text_;
  Output last_;
};

Config two_ranks() {
  Config c;
  c.model = kModel;
  c.data_parallel = 2;
  c.expert_parallel = true;
  c.decode_threshold = 1;
  c.prefill_threshold = 1;
  c.isa = best_isa();
  c.exchange_timeout = 20s;
  return c;
}

struct Running {
  explicit Running(Config config) {
    auto started = Engine::start(std::move(config), tokenizer(), metrics);
    if (!started) throw std::runtime_error(started.error().message);
    engine = std::move(*started);
  }
  std::shared_ptr<Answer> ask(const std::string& text, sched::SamplingParams params, int64_t* id = nullptr) {
    auto answer = std::make_shared<Answer>();
    auto accepted = engine->submit(*tokenizer().encode(text), std::move(params), answer);
    if (!accepted) throw std::runtime_error(accepted.error().message);
    if (id != nullptr) *id = *accepted;
    return answer;
  }
  telemetry::Metrics metrics;
  std::unique_ptr<Engine> engine;
};

std::vector<std::string> questions() {
  std::vector<std::string> out;
  for (int i = 0; i < 12; ++i) {
    out.push_back("Question: Dora has " + std::to_string(20 + 7 * i) + " eggs. Dora buys " + std::to_string(i + 2) +
                  " more. How many eggs does Dora have now?\nAnswer:");
  }
  return out;
}

std::vector<std::vector<int32_t>> answers(Config config, int64_t max_tokens = 40) {
  Running running(std::move(config));
  std::vector<std::shared_ptr<Answer>> open;
  for (const std::string& q : questions()) open.push_back(running.ask(q, {.temperature = 0, .max_tokens = max_tokens}));
  std::vector<std::vector<int32_t>> ids;
  for (const auto& answer : open) ids.push_back(answer->ids());
  return ids;
}

TEST(Engine, AnswersTheSameHoweverItIsRun) {
  Config plain;
  plain.model = kModel;
  plain.isa = Isa::generic;
  plain.cpu_threads = 1;
  const auto want = answers(plain);
  ASSERT_EQ(want.size(), 12U);
  EXPECT_EQ(answers(two_ranks()), want);
  Config c = two_ranks();
  c.data_parallel = 4;
  c.ubatches = 3;
  c.backend = BackendChoice::allgather;
  c.max_batched_tokens = 64;
  EXPECT_EQ(answers(c), want);
  c = two_ranks();
  c.expert_parallel = false;  // independent replicas
  EXPECT_EQ(answers(c), want);
}

TEST(Engine, TracesAndLinksChangeNoToken) {
  const auto want = answers(two_ranks());
  device::Recorder recorder;
  Config c = two_ranks();
  c.recorder = &recorder;
  c.link = {.bytes_per_second = 1e9, .latency = 5us};
  EXPECT_EQ(answers(c), want);
  std::set<std::pair<int, std::string>> lanes;
  std::set<std::string> names;
  for (const auto& span : recorder.spans()) {
    EXPECT_LE(span.begin_ns, span.end_ns);
    lanes.insert({span.rank, span.lane});
    names.insert(span.name);
  }
  EXPECT_EQ(lanes.size(), 8U);  // two ranks of host, compute, comm and link
  for (const char* name : {"step 0", "u0/L0/attention", "u1/L3/dispatch", "u1/L3/combine"}) EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Engine, PreemptionChangesNothing) {
  const auto want = answers(two_ranks(), 100);
  Config c = two_ranks();
  c.max_model_len = 160;
  c.kv_blocks = 20;  // two requests of 160 tokens; the twelve ask for more
  Running running(c);
  std::vector<std::shared_ptr<Answer>> open;
  for (const std::string& q : questions()) {
    open.push_back(running.ask(q, {.temperature = 0, .max_tokens = 100, .ignore_eos = true}));
  }
  for (size_t i = 0; i < open.size(); ++i) {
    std::vector<int32_t> ids = open[i]->ids();
    ASSERT_GE(ids.size(), 90U);
    ids.resize(std::min(ids.size(), want[i].size()));
    EXPECT_EQ(ids, want[i]) << i;
  }
  const std::string metrics = running.metrics.prometheus_text();
  EXPECT_THAT(metrics, HasSubstr("vllm:num_preemptions_total"));
  EXPECT_THAT(metrics, testing::Not(HasSubstr("vllm:num_preemptions_total{engine=\"0\"} 0\n")));
}

TEST(Engine, ASampleDoesNotDependOnItsNeighbours) {
  const sched::SamplingParams params{.temperature = 1, .top_p = 0.95F, .seed = 11, .max_tokens = 20};
  std::vector<int32_t> alone;
  {
    Running running(two_ranks());
    alone = running.ask(questions()[0], params)->ids();
  }
  Running running(two_ranks());
  std::vector<std::shared_ptr<Answer>> others;
  for (const std::string& q : questions()) others.push_back(running.ask(q, {.temperature = 1, .seed = 3, .max_tokens = 30}));
  EXPECT_EQ(running.ask(questions()[0], params)->ids(), alone);
}

TEST(Engine, EndsAsItsParametersSay) {
  Running running(two_ranks());
  const std::string q =
      "<|im_start|>user\nFinn has 8 rows with 3 plates in each. How many plates does Finn have now?<|im_end|>\n"
      "<|im_start|>assistant\n";
  EXPECT_EQ(running.ask(q, {.temperature = 0, .max_tokens = 5})->end().finish, FinishReason::length);
  const Output eos = running.ask(q, {.temperature = 0, .max_tokens = 200})->end();
  EXPECT_EQ(eos.finish, FinishReason::stop);
  EXPECT_EQ(eos.stop_reason, "");
  auto stopped = running.ask(q, {.temperature = 0, .max_tokens = 200, .stop = {"####"}});
  EXPECT_EQ(stopped->end().stop_reason, "####");
  EXPECT_THAT(stopped->text(), testing::Not(HasSubstr("####")));
  auto late = running.ask(q, {.temperature = 0, .max_tokens = 200, .min_tokens = 120});
  EXPECT_GE(late->ids().size(), 120U);
  auto by_id = running.ask(q, {.temperature = 0, .max_tokens = 200, .ignore_eos = true, .stop_token_ids = {eos.token.value()}});
  EXPECT_EQ(by_id->end().stop_reason, std::to_string(eos.token.value()));
}

TEST(Engine, RefusesWhatCannotRun) {
  Running running(two_ranks());
  auto sink = std::make_shared<Answer>();
  EXPECT_THAT(running.engine->submit({}, {}, sink).error().message, HasSubstr("prompt is empty"));
  EXPECT_THAT(running.engine->submit({1 << 20}, {}, sink).error().message, HasSubstr("out of vocabulary"));
  Config c = two_ranks();
  c.data_parallel = 3;
  EXPECT_THROW(Running{c}, std::runtime_error);
}

TEST(Engine, AnAbortedRequestEndsAndItsBlocksReturn) {
  Running running(two_ranks());
  int64_t id = 0;
  auto answer = running.ask("a", {.temperature = 0, .max_tokens = 4000, .ignore_eos = true}, &id);
  answer->wait_for_tokens(3);
  running.engine->abort(id);
  EXPECT_EQ(answer->end().finish, FinishReason::abort);
  EXPECT_LT(answer->ids().size(), 4000U);
  EXPECT_EQ(running.ask(questions()[0], {.temperature = 0, .max_tokens = 5})->ids().size(), 5U);
}

// Fault AG-11: a failed step fails on all ranks with one message, no partial output, and the next request is served.
TEST(Fault, AG11_AFailedStepIsBoundedAndTheNextRequestIsServed) {
  std::atomic<int> countdown{-1};
  Config c = two_ranks();
  c.before_step = [&] {
    if (countdown.load() >= 0 && countdown.fetch_sub(1) == 0) throw std::runtime_error("injected");
  };
  Running running(c);
  const auto want = running.ask(questions()[1], {.temperature = 0, .max_tokens = 30})->ids();
  for (int round = 0; round < 5; ++round) {
    std::vector<std::shared_ptr<Answer>> open;
    for (int i = 0; i < 6; ++i) open.push_back(running.ask("a b c", {.temperature = 0, .max_tokens = 200, .ignore_eos = true}));
    open[0]->wait_for_tokens(2);
    countdown = round;
    int failed = 0;
    for (const auto& answer : open) {
      const Output& end = answer->end();
      failed += end.finish == FinishReason::error ? 1 : 0;
      if (end.finish == FinishReason::error) {
        EXPECT_THAT(end.error, HasSubstr("failed on rank"));
      }
    }
    EXPECT_GT(failed, 0);
    EXPECT_EQ(running.engine->health(), Health::ready);
    EXPECT_EQ(running.ask(questions()[1], {.temperature = 0, .max_tokens = 30})->ids(), want);
  }
}

// Fault AG-04: ranks without requests take part; a single request on one of four ranks finishes.
TEST(Fault, AG04_IdleRanksTakePart) {
  Config c = two_ranks();
  c.data_parallel = 4;
  Running running(c);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(running.ask(questions()[0], {.temperature = 0, .max_tokens = 6})->ids().size(), 6U);
  }
}

TEST(Engine, DrainEndsWhatWasAcceptedAndRefusesTheRest) {
  Running running(two_ranks());
  std::vector<std::shared_ptr<Answer>> open;
  for (const std::string& q : questions()) open.push_back(running.ask(q, {.temperature = 0, .max_tokens = 60}));
  EXPECT_TRUE(running.engine->drain(kPatience));
  for (const auto& answer : open) EXPECT_NE(answer->end().finish, FinishReason::abort);
  auto refused = running.engine->submit({1}, {}, std::make_shared<Answer>());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("shutting down"));
}

TEST(Engine, DestructionEndsOpenRequests) {
  auto answer = std::make_shared<Answer>();
  {
    Running running(two_ranks());
    ASSERT_TRUE(running.engine->submit({1, 2, 3}, {.temperature = 0, .max_tokens = 4000, .ignore_eos = true}, answer));
    answer->wait_for_tokens(1);
  }
  EXPECT_EQ(answer->end().finish, FinishReason::abort);
}

TEST(Engine, RequestsGoToTheLeastLoadedRank) {
  Running running(two_ranks());
  std::array<int, 2> seen{};
  std::vector<std::shared_ptr<Answer>> open;
  for (int i = 0; i < 8; ++i) {
    int64_t id = 0;
    open.push_back(running.ask("a", {.temperature = 0, .max_tokens = 300, .ignore_eos = true}, &id));
    ++seen[static_cast<size_t>(id % 2)];
  }
  EXPECT_EQ(seen[0], 4);
  EXPECT_EQ(seen[1], 4);
  for (const auto& answer : open) answer->end();
}

}  // namespace
}  // namespace hocket::engine
