// The whole forward pass against transformers in f32 (test/data/*.safetensors), and against itself in other shapes.
//
// Tolerances. The references compute in f32; here operands of matrix products, K, V and expert rows are bf16 (relative
// error 2^-9) and activations of FP8 layers e4m3. An emulation of just these roundings in numpy, independent of this
// code, moved logits (standard deviation about 4) by at most 0.20 (root mean square 0.024) for BF16 and 0.50 (0.066) for
// FP8. The limits are 1.5 times that: sums here have another order, which can turn single roundings.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/checkpoint.h"
#include "model/forward_testing.h"
#include "model/test_support.h"

namespace hocket::model {
namespace {

using testing::load_ranks;
using testing::Logits;
using testing::Models;
using testing::run_steps;
using testing::ForwardSetup;
using testing::StepRow;
namespace fs = std::filesystem;

const fs::path kRoot = HOCKET_SOURCE_DIR;

class Golden {
 public:
  explicit Golden(const fs::path& path) : file_(SafetensorsFile::open(path).value()) {
    for (const TensorInfo& info : file_.tensors()) infos_[info.name] = &info;
  }
  template <class T>
  std::vector<T> get(const std::string& name) const {
    const auto bytes = file_.bytes(*infos_.at(name));
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  int cases() const {
    int count = 0;
    while (infos_.contains(std::to_string(count) + ".logits")) ++count;
    return count;
  }

 private:
  SafetensorsFile file_;
  std::map<std::string, const TensorInfo*> infos_;
};

struct Limits {
  double max_error, rms_error, mean_kl;
};

struct Reference {
  const char *name, *model, *golden;
  Limits limits;
  /// Where our two logits are this close an id may differ: the error of their difference, 2 x the rms limit.
  float tie = 0;
  int64_t percent_of_ties = 0;  ///< of all ids, at most
};
void PrintTo(const Reference& reference, std::ostream* out) { *out << reference.name; }

/// KL divergence of two rows of logits, in f64.
double divergence(const float* reference, const float* ours, size_t vocab) {
  const auto log_sum = [&](const float* row) {
    const double top = *std::max_element(row, row + vocab);
    double sum = 0;
    for (size_t i = 0; i < vocab; ++i) sum += std::exp(row[i] - top);
    return top + std::log(sum);
  };
  const double a = log_sum(reference), b = log_sum(ours);
  double kl = 0;
  for (size_t i = 0; i < vocab; ++i) kl += std::exp(reference[i] - a) * ((reference[i] - a) - (ours[i] - b));
  return kl;
}

int32_t argmax(const float* row, size_t vocab) { return static_cast<int32_t>(std::max_element(row, row + vocab) - row); }

/// Compares the last rows of `ours` with a golden's rows.
void expect_near(const std::vector<float>& golden, const std::vector<float>& ours, size_t vocab, const Limits& limits,
                 const std::string& what) {
  ASSERT_GE(ours.size(), golden.size());
  const float* last = ours.data() + (ours.size() - golden.size());
  double worst = 0, squares = 0, kl = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const double error = std::fabs(golden[i] - last[i]);
    ASSERT_TRUE(std::isfinite(last[i])) << what << " element " << i;
    worst = std::max(worst, error);
    squares += error * error;
  }
  const size_t rows = golden.size() / vocab;
  for (size_t row = 0; row < rows; ++row) kl += divergence(&golden[row * vocab], last + row * vocab, vocab);
  const double rms = std::sqrt(squares / static_cast<double>(golden.size()));
  EXPECT_LE(worst, limits.max_error) << what;
  EXPECT_LE(rms, limits.rms_error) << what;
  EXPECT_LE(kl / static_cast<double>(rows), limits.mean_kl) << what;
  ::testing::Test::RecordProperty(what + ".max", std::to_string(worst));
  std::printf("%s: max error %.4f, rms %.4f, mean KL %.2e\n", what.c_str(), worst, rms, kl / static_cast<double>(rows));
}

class GoldenForward : public ::testing::TestWithParam<Reference> {
 protected:
  GoldenForward()
      : golden_(kRoot / GetParam().golden),
        config_(load_config(kRoot / GetParam().model).value()),
        models_(load_ranks(kRoot / GetParam().model, config_, 1)),
        vocab_(static_cast<size_t>(config_.vocab)) {}

  std::vector<int32_t> ids(int index, const char* what) const {
    return golden_.get<int32_t>(std::to_string(index) + what);
  }

  Golden golden_;
  ModelConfig config_;
  Models models_;
  size_t vocab_;
};

TEST_P(GoldenForward, LogitsOfEveryPromptAreClose) {
  for (int index = 0; index < golden_.cases(); ++index) {
    const auto prompt = ids(index, ".input_ids");
    const ForwardSetup setup{.max_tokens = static_cast<int64_t>(prompt.size()), .requests = 1};
    const auto out = run_steps(models_, setup, {{{0, prompt}}});
    expect_near(golden_.get<float>(std::to_string(index) + ".logits"), out[0].at(0), vocab_, GetParam().limits,
                fmt::format("{} case {}", GetParam().name, index));
  }
}

TEST_P(GoldenForward, GreedyIdsAreEqualWhenTheReferenceIsFed) {
  int64_t compared = 0, differing = 0;
  for (int index = 0; index < golden_.cases(); ++index) {
    auto tokens = ids(index, ".input_ids");
    const auto greedy = ids(index, ".greedy_ids");
    const size_t first = tokens.size() - 1;
    tokens.insert(tokens.end(), greedy.begin(), greedy.end() - 1);
    const ForwardSetup setup{.max_tokens = static_cast<int64_t>(tokens.size()), .requests = 1};
    const auto out = run_steps(models_, setup, {{{0, tokens}}});
    for (size_t i = 0; i < greedy.size(); ++i) {
      const float* row = &out[0].at(0)[(first + i) * vocab_];
      const int32_t best = argmax(row, vocab_);
      ++compared;
      differing += best != greedy[i] ? 1 : 0;
      EXPECT_LE(row[best] - row[greedy[i]], GetParam().tie) << "case " << index << " token " << i;
    }
  }
  EXPECT_LE(differing * 100, compared * GetParam().percent_of_ties);
}

/// The reference's continuation, fed one token a step for all cases together: what decode computes must be bit for bit
/// what prefill computed, so the ids follow from the test above.
TEST_P(GoldenForward, DecodeGivesTheBitsOfPrefill) {
  std::vector<std::vector<StepRow>> steps(1);
  std::vector<std::vector<StepRow>> whole(1);
  int64_t tokens = 0;
  for (int index = 0; index < golden_.cases(); ++index) {
    auto prompt = ids(index, ".input_ids");
    const auto greedy = ids(index, ".greedy_ids");
    steps[0].push_back({index, prompt});
    for (size_t i = 0; i + 1 < greedy.size(); ++i) {
      if (steps.size() < i + 2) steps.emplace_back();
      steps[i + 1].push_back({index, {greedy[i]}});
    }
    prompt.insert(prompt.end(), greedy.begin(), greedy.end() - 1);
    tokens += static_cast<int64_t>(prompt.size());
    whole[0].push_back({index, prompt});
  }
  const ForwardSetup setup{.max_tokens = tokens, .requests = golden_.cases()};
  const auto expected = run_steps(models_, setup, whole);
  const auto parts = run_steps(models_, setup, steps);
  for (int index = 0; index < golden_.cases(); ++index) {
    std::vector<float> joined;
    for (const Logits& part : parts) {
      const auto found = part.find(index);
      if (found != part.end()) joined.insert(joined.end(), found->second.begin(), found->second.end());
    }
    EXPECT_TRUE(joined == expected[0].at(index)) << "case " << index;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Model, GoldenForward,
    ::testing::Values(Reference{"bf16", "test/data/tiny-moe-bf16", "test/data/bf16_weights_f32_math.safetensors", {0.30, 0.036, 1e-3}},
                      Reference{"fp8", "models/tiny-moe-fp8", "test/data/fp8_weights_f32_math.safetensors", {0.75, 0.10, 2e-2}, 0.2F, 1},
                      // Weights N(0, 0.02) give logits of about 0.2: bf16 errors scale with them.
                      Reference{"random", "test/data/qwen3-moe-random", "test/data/qwen3-moe-random/golden.safetensors", {0.05, 0.012, 1e-4}, 0.024F, 10}),
    [](const auto& instance) { return std::string(instance.param.name); });

/// The tiny model cut after some layers, as a folder of its own.
void write_truncated(const fs::path& from, const testing::TempFolder& to, int layers) {
  auto config = nlohmann::json::parse(testing::slurp(from / "config.json"));
  config["num_hidden_layers"] = layers;
  to.write("config.json", config.dump());
  const auto checkpoint = Checkpoint::open(from).value();
  std::vector<testing::NamedTensor> kept;
  for (const auto& [name, stored] : checkpoint.tensors()) {
    const bool in_layer = name.starts_with("model.layers.");
    if (in_layer && std::stoi(name.substr(std::strlen("model.layers."))) >= layers) continue;
    const auto bytes = stored.bytes();
    kept.push_back({name, std::string(stored.info->stored_type), stored.info->shape,
                    {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  }
  to.write("model.safetensors", testing::file_of(kept));
}

/// Logits that follow from a golden hidden state, in f64: final norm and tied head.
std::vector<float> logits_of(const std::vector<float>& hidden, const Checkpoint& checkpoint, int64_t width) {
  const auto load = [&](const char* name) {
    const auto bytes = checkpoint.find(name)->bytes();
    std::vector<double> out(bytes.size() / 2);
    for (size_t i = 0; i < out.size(); ++i) {
      quant::Bf16 value;
      std::memcpy(&value, bytes.data() + 2 * i, 2);
      out[i] = quant::to_float(value);
    }
    return out;
  };
  const auto norm = load("model.norm.weight"), table = load("model.embed_tokens.weight");
  const auto columns = static_cast<size_t>(width);
  std::vector<float> out;
  for (size_t row = 0; row < hidden.size() / columns; ++row) {
    double squares = 0;
    for (size_t i = 0; i < columns; ++i) squares += std::pow(hidden[row * columns + i], 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-6);
    for (size_t id = 0; id < table.size() / columns; ++id) {
      double sum = 0;
      for (size_t i = 0; i < columns; ++i) sum += hidden[row * columns + i] * scale * norm[i] * table[id * columns + i];
      out.push_back(static_cast<float>(sum));
    }
  }
  return out;
}

TEST(GoldenHidden, EveryLayerOfTheTinyModelIsClose) {
  const fs::path from = kRoot / "test/data/tiny-moe-bf16";
  const Golden golden(kRoot / "test/data/bf16_weights_f32_math.safetensors");
  const auto checkpoint = Checkpoint::open(from).value();
  const auto prompt = golden.get<int32_t>("0.input_ids");
  for (int layers = 1; layers <= 3; ++layers) {
    const testing::TempFolder folder;
    write_truncated(from, folder, layers);
    const auto config = load_config(folder.path()).value();
    const auto models = load_ranks(folder.path(), config, 1);
    const auto out = run_steps(models, {.max_tokens = static_cast<int64_t>(prompt.size()), .requests = 1}, {{{0, prompt}}});
    const auto expected = logits_of(golden.get<float>(fmt::format("0.hidden.{}", layers)), checkpoint, config.hidden);
    expect_near(expected, out[0].at(0), static_cast<size_t>(config.vocab), {0.30, 0.036, 1e-3},
                fmt::format("after layer {}", layers - 1));
  }
}

/// Three prompts, then two more tokens each; a fourth rank has nothing to do, and a third ubatch may be empty.
class Invariance : public ::testing::TestWithParam<const char*> {
 protected:
  Invariance() : folder_(kRoot / GetParam()), config_(load_config(folder_).value()) {
    const Golden golden(kRoot / "test/data/fp8_weights_f32_math.safetensors");
    steps_.resize(3);
    for (int index = 0; index < 3; ++index) {
      auto prompt = golden.get<int32_t>(std::to_string(index) + ".input_ids");
      for (int32_t& id : prompt) id %= static_cast<int32_t>(config_.vocab);
      steps_[0].push_back({index, prompt});
      for (size_t i = 0; i < 2; ++i) steps_[i + 1].push_back({index, {prompt[i]}});
    }
  }
  std::vector<Logits> run(const Models& models, ForwardSetup setup) const {
    setup.max_tokens = 200;
    setup.requests = 3;
    return run_steps(models, setup, steps_);
  }
  fs::path folder_;
  ModelConfig config_;
  std::vector<std::vector<StepRow>> steps_;
};

TEST_P(Invariance, LogitsAreBitwiseEqualForRanksBackEndsUbatchesAndThreads) {
  const auto expected = run(load_ranks(folder_, config_, 1), {});
  for (const int ranks : {1, 2, 4}) {
    const auto models = load_ranks(folder_, config_, ranks);
    for (const auto backend : {comm::Backend::high_throughput, comm::Backend::low_latency, comm::Backend::allgather}) {
      for (const int ubatches : {1, 2, 3}) {
        const int threads = ubatches == 2 ? 2 : 1;
        const auto ours = run(models, {.ranks = ranks, .ubatches = ubatches, .threads = threads, .backend = backend});
        EXPECT_TRUE(ours == expected) << ranks << " ranks, " << comm::name(backend) << ", " << ubatches << " ubatches";
      }
    }
  }
}

TEST_P(Invariance, LogitsAreBitwiseEqualForEveryInstructionSet) {
  const auto models = load_ranks(folder_, config_, 1);
  const auto expected = run(models, {.isa = Isa::generic});
  for (int isa = 1; isa <= static_cast<int>(best_isa()); ++isa) {
    EXPECT_TRUE(run(models, {.isa = static_cast<Isa>(isa)}) == expected) << name(static_cast<Isa>(isa));
  }
}

INSTANTIATE_TEST_SUITE_P(Model, Invariance,
                         ::testing::Values("test/data/tiny-moe-bf16", "models/tiny-moe-fp8", "test/data/qwen3-moe-random"),
                         [](const auto& instance) {
                           std::string label = fs::path(instance.param).filename();
                           std::replace(label.begin(), label.end(), '-', '_');
                           return label;
                         });

}  // namespace
}  // namespace hocket::model
