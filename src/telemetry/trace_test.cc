#include "telemetry/trace.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/rng.h"

#include <gtest/gtest.h>

namespace hocket::telemetry {
namespace {

namespace fs = std::filesystem;

/// A path of its own in the test's temporary folder; the file goes with it.
class TempFile {
 public:
  TempFile() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::path(testing::TempDir()) / (std::string(test->name()) + "." + std::to_string(getpid()) + ".json");
  }
  ~TempFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  void write(std::string_view text) const { std::ofstream(path_, std::ios::binary) << text; }

 private:
  fs::path path_;
};

std::string text_of(std::span<const TraceSpan> spans) {
  std::ostringstream out;
  write_trace(out, spans);
  return out.str();
}

TEST(Trace, GoldenFile) {
  const std::vector<TraceSpan> spans{
      {1, "comm", "u1/L12/dispatch", 1234567, 1234567 + 89, {{"bytes", 4096}, {"rows", -1}}},
      {1, "host", "step 17", -5, 2000000, {}},
  };
  EXPECT_EQ(text_of(spans), R"({"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"rank 1"}},
{"ph":"M","pid":1,"tid":0,"name":"thread_name","args":{"name":"host"}},
{"ph":"M","pid":1,"tid":0,"name":"thread_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"comm"}},
{"ph":"M","pid":1,"tid":1,"name":"thread_sort_index","args":{"sort_index":1}},
{"ph":"X","pid":1,"tid":0,"name":"step 17","ts":-0.005,"dur":2000.005},
{"ph":"X","pid":1,"tid":1,"name":"u1/L12/dispatch","ts":1234.567,"dur":0.089,"args":{"bytes":4096,"rows":-1}}
]}
)");
}

TEST(Trace, RandomSpansComeBackAndTheirOrderDoesNotMatter) {
  const std::vector<std::string> lanes{"compute", "comm", "host", "link", "odd \"lane\"\\\n", "another"};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<TraceSpan> spans;
    for (uint64_t i = 0; i < 40; ++i) {
      const auto draw = [&](uint64_t what, double below) { return static_cast<int64_t>(uniform(seed, i, what) * below); };
      const int64_t begin = draw(0, 1e15);
      TraceSpan span{static_cast<int>(draw(1, 3)), lanes[static_cast<size_t>(draw(2, 6))], "s" + std::to_string(i), begin,
                     begin + draw(3, 1e12), {}};
      if (draw(4, 2) == 0) span.args = {{"bytes", draw(5, 1e18)}, {"q\"", -3}};
      spans.push_back(std::move(span));
    }
    const TempFile file;
    ASSERT_TRUE(save_trace(file.path(), spans));
    const auto back = read_trace(file.path());
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(back->size(), spans.size());
    for (const TraceSpan& span : spans) {
      const auto twin = std::find_if(back->begin(), back->end(), [&](const TraceSpan& b) { return b.name == span.name; });
      ASSERT_NE(twin, back->end());
      EXPECT_EQ(*twin, span);
    }
    EXPECT_EQ(text_of(*back), text_of(spans));
  }
}

TEST(Trace, ReadsBareArraysAndLanesWithoutNames) {
  const TempFile file;
  file.write(R"([{"ph":"X","pid":3,"tid":7,"name":"a","ts":1,"dur":2.5},{"ph":"X","pid":3,"tid":"dma","name":"b","ts":0},
    {"ph":"C","pid":3,"name":"sms","ts":1}, 17])");
  const auto spans = read_trace(file.path());
  ASSERT_TRUE(spans) << spans.error().message;
  ASSERT_EQ(spans->size(), 2U);
  EXPECT_EQ((*spans)[0], (TraceSpan{3, "7", "a", 1000, 3500, {}}));
  EXPECT_EQ((*spans)[1], (TraceSpan{3, "dma", "b", 0, 0, {}}));
}

TEST(Trace, ErrorsAreOneLineThatNamesTheFile) {
  const TempFile file;
  const auto error_of = [&](std::string_view text) {
    file.write(text);
    const auto spans = read_trace(file.path());
    return spans ? std::string() : spans.error().message;
  };
  for (const char* text : {"", "{", "not json", "{}", "3", "{\"traceEvents\":3}", "{\"traceEvents\":[]}", "[{\"ph\":\"X\"}]"}) {
    const std::string message = error_of(text);
    EXPECT_TRUE(message.starts_with(file.path().string() + ": ")) << text << " gave " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_NE(error_of("{\"traceEvents\":[]}").find("without spans"), std::string::npos);
  const auto missing = read_trace("/no/such/trace.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::missing);
}

TEST(Trace, AFailedWriteKeepsWhatWasThere) {
  const std::vector<TraceSpan> spans{{0, "compute", "u0/L0/attention", 0, 5, {}}};
  const auto nowhere = save_trace("/no/such/folder/trace.json", spans);
  ASSERT_FALSE(nowhere);
  EXPECT_TRUE(nowhere.error().message.starts_with("/no/such/folder/trace.json: ")) << nowhere.error().message;
  const auto full = save_trace("/dev/full", spans);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().message.find("No space left"), std::string::npos) << full.error().message;
}

}  // namespace
}  // namespace hocket::telemetry
