#include "telemetry/trace.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <tuple>

namespace hocket::telemetry {
namespace {

namespace fs = std::filesystem;
namespace dom = simdjson::dom;

/// Known lanes come first, in the order in which work flows through them.
int lane_rank(std::string_view lane) {
  constexpr std::array<std::string_view, 4> kKnown{"host", "compute", "comm", "link"};
  return static_cast<int>(std::find(kKnown.begin(), kKnown.end(), lane) - kKnown.begin());
}

bool before(const TraceSpan& a, const TraceSpan& b) {
  // a longer span first: what it encloses is drawn inside it
  return std::tuple(a.rank, lane_rank(a.lane), std::string_view(a.lane), a.begin_ns, -a.end_ns) <
         std::tuple(b.rank, lane_rank(b.lane), std::string_view(b.lane), b.begin_ns, -b.end_ns);
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string microseconds(int64_t ns) {
  const uint64_t size = ns < 0 ? uint64_t{0} - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

void write_metadata(std::ostream& out, const char* what, int rank, int lane, std::string_view argument) {
  out << fmt::format("{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"args\":{{{}}}}}", rank, lane, what, argument);
}

void write_span(std::ostream& out, const TraceSpan& span, int lane) {
  out << fmt::format("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":{},\"ts\":{},\"dur\":{}", span.rank, lane,
                     json_string(span.name), microseconds(span.begin_ns), microseconds(span.end_ns - span.begin_ns));
  if (!span.args.empty()) {
    out << ",\"args\":{";
    for (size_t i = 0; i < span.args.size(); ++i) {
      out << fmt::format("{}{}:{}", i > 0 ? "," : "", json_string(span.args[i].first), span.args[i].second);
    }
    out << '}';
  }
  out << '}';
}

/// Numbers in a trace are exact to the nanosecond up to 2^53 ns, 104 days.
int64_t nanoseconds(double microseconds) { return std::llround(microseconds * 1000); }

template <class T>
T value_or(simdjson::simdjson_result<dom::element> element, T fallback) {
  T value{};
  return element.get(value) == simdjson::SUCCESS ? value : fallback;
}

class Reader {
 public:
  void event(dom::element element) {
    const auto phase = value_or(element["ph"], std::string_view());
    const auto rank = value_or(element["pid"], int64_t{0});
    if (phase == "M") {
      name_lane(element, rank);
    } else if (phase == "X") {
      add(element, rank);
    }
  }
  std::vector<TraceSpan> take() {
    for (size_t i = 0; i < spans_.size(); ++i) {
      const auto name = names_.find({spans_[i].rank, lanes_[i]});
      spans_[i].lane = name != names_.end() ? name->second : lanes_[i];
    }
    std::stable_sort(spans_.begin(), spans_.end(), before);
    return std::move(spans_);
  }

 private:
  static std::string lane_of(dom::element element) {
    std::string_view text;
    if (element["tid"].get(text) == simdjson::SUCCESS) return std::string(text);
    return std::to_string(value_or(element["tid"], int64_t{0}));
  }
  void name_lane(dom::element element, int64_t rank) {
    std::string_view what, name;
    if (element["name"].get(what) != simdjson::SUCCESS || what != "thread_name") return;
    if (element["args"]["name"].get(name) != simdjson::SUCCESS) return;
    names_[{static_cast<int>(rank), lane_of(element)}] = std::string(name);
  }
  void add(dom::element element, int64_t rank) {
    double time = 0;
    if (element["ts"].get(time) != simdjson::SUCCESS) return;
    const int64_t begin = nanoseconds(time);
    const int64_t length = std::max(int64_t{0}, nanoseconds(value_or(element["dur"], 0.0)));
    const auto name = value_or(element["name"], std::string_view());
    TraceSpan span{static_cast<int>(rank), {}, std::string(name), begin, begin + length, {}};
    dom::object args;
    if (element["args"].get(args) == simdjson::SUCCESS) {
      for (const auto field : args) {
        int64_t value = 0;
        if (field.value.get(value) == simdjson::SUCCESS) span.args.emplace_back(field.key, value);
      }
    }
    spans_.push_back(std::move(span));
    lanes_.push_back(lane_of(element));
  }

  std::vector<TraceSpan> spans_;
  std::vector<std::string> lanes_;  // of the spans, until all names are known
  std::map<std::pair<int, std::string>, std::string> names_;
};

}  // namespace

void write_trace(std::ostream& out, std::span<const TraceSpan> spans) {
  std::vector<const TraceSpan*> order;
  std::map<int, std::vector<std::string>> lanes;  // by rank, in their order
  for (const TraceSpan& span : spans) order.push_back(&span);
  std::stable_sort(order.begin(), order.end(), [](const TraceSpan* a, const TraceSpan* b) { return before(*a, *b); });
  for (const TraceSpan* span : order) {
    auto& known = lanes[span->rank];
    if (known.empty() || known.back() != span->lane) known.push_back(span->lane);
  }
  out << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const char* separator = "\n";
  for (const auto& [rank, names] : lanes) {
    out << std::exchange(separator, ",\n");
    write_metadata(out, "process_name", rank, 0, fmt::format("\"name\":\"rank {}\"", rank));
    for (size_t lane = 0; lane < names.size(); ++lane) {
      out << separator;
      const auto id = static_cast<int>(lane);
      write_metadata(out, "thread_name", rank, id, fmt::format("\"name\":{}", json_string(names[lane])));
      out << separator;
      write_metadata(out, "thread_sort_index", rank, id, fmt::format("\"sort_index\":{}", lane));
    }
  }
  for (const TraceSpan* span : order) {
    const auto& names = lanes[span->rank];
    out << std::exchange(separator, ",\n");
    write_span(out, *span, static_cast<int>(std::find(names.begin(), names.end(), span->lane) - names.begin()));
  }
  out << "\n]}\n";
}

Expected<void> save_trace(const fs::path& path, std::span<const TraceSpan> spans) {
  const auto problem = [&path] {
    return fail(Code::internal, fmt::format("{}: the trace cannot be written: {}. Name a file in a folder that is "
                                            "writable and has space.", path.string(), std::strerror(errno)));
  };
  std::error_code error;
  const bool replaces = !fs::exists(path, error) || fs::is_regular_file(path, error);  // a pipe is written as it is
  const fs::path target = replaces ? fs::path(path.string() + ".part") : path;
  errno = 0;
  std::ofstream file(target, std::ios::binary | std::ios::trunc);
  if (!file) return problem();
  write_trace(file, spans);
  file.close();
  if (!file) {
    const auto failure = problem();
    if (replaces) fs::remove(target, error);
    return failure;
  }
  if (!replaces) return {};
  fs::rename(target, path, error);
  if (!error) return {};
  errno = error.value();
  const auto failure = problem();
  fs::remove(target, error);
  return failure;
}

Expected<std::vector<TraceSpan>> read_trace(const fs::path& path) {
  dom::parser parser;
  dom::element root;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return fail(Code::missing, fmt::format("{}: no such file. Name a trace written with --trace FILE.", path.string()));
  }
  if (const auto error = parser.load(path.string()).get(root); error != simdjson::SUCCESS) {
    if (error == simdjson::IO_ERROR) return fail(Code::missing, fmt::format("{}: cannot be read.", path.string()));
    return fail(Code::bad_input, fmt::format("{}: not a trace: {}", path.string(), simdjson::error_message(error)));
  }
  dom::array events;
  if (root.get(events) != simdjson::SUCCESS && root["traceEvents"].get(events) != simdjson::SUCCESS) {
    return fail(Code::bad_input, fmt::format("{}: not a Chrome trace: neither an array of events nor an object with "
                                             "\"traceEvents\".", path.string()));
  }
  Reader reader;
  for (const dom::element event : events) {
    if (event.is_object()) reader.event(event);
  }
  std::vector<TraceSpan> spans = reader.take();
  if (spans.empty()) {
    return fail(Code::bad_input, fmt::format("{}: a trace without spans: no event has \"ph\":\"X\".", path.string()));
  }
  return spans;
}

}  // namespace hocket::telemetry
