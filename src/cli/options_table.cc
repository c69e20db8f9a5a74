#include "cli/options_table.h"

#include <fmt/format.h>

#include "cli/options_values.h"
#include "comm/all2all.h"

namespace hocket::cli {
namespace {

using std::string;
using std::string_view;

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
constexpr unsigned kServe = verb_bit(Verb::serve), kGenerate = verb_bit(Verb::generate), kEval = verb_bit(Verb::eval),
                   kBench = verb_bit(Verb::bench_throughput), kCalibrate = verb_bit(Verb::bench_calibrate), kTrace = verb_bit(Verb::trace),
                   kSimulate = verb_bit(Verb::simulate), kTune = verb_bit(Verb::tune), kVirtual = kSimulate | kTune;

/// Into `out` (any arithmetic type, optional of one, or duration by `unit`).
template <class T>
string integer(string_view text, int64_t low, int64_t high, T& out) {
  string problem;
  if (const auto value = integer_in(text, {low, high}, problem)) out = static_cast<T>(*value);
  return problem;
}
template <class T>
string integer(string_view text, int64_t low, int64_t high, std::optional<T>& out) {
  return integer(text, low, high, out.emplace());
}
string real(string_view text, double low, double high, float& out) {
  string problem;
  if (const auto value = real_in(text, low, high, problem)) out = static_cast<float>(*value);
  return problem;
}
string seconds(string_view text, std::chrono::milliseconds& out) {
  string problem;
  if (const auto value = real_in(text, 0.001, 86'400, problem)) {
    out = std::chrono::milliseconds(static_cast<int64_t>(*value * 1000 + 0.5));
  }
  return problem;
}
template <class T>
string choice(string_view text, const std::vector<std::pair<string_view, T>>& choices, T& out) {
  std::vector<string_view> names;
  for (const auto& [name, value] : choices) {
    if (name == text) {
      out = value;
      return {};
    }
    names.push_back(name);
  }
  return expected_one_of(names);
}
string path(string_view text, std::filesystem::path& out) {
  if (text.empty()) return "expected a file.";
  out = text;
  return {};
}
bool is_true(string_view text) { return text == "true"; }  // booleans arrive checked and spelled so

string set_model(Options& o, string_view v) { return path(v, o.engine.config.model); }
string add_served_name(Options& o, string_view v) {
  if (v.empty()) return "expected a name.";
  o.server.served_names.emplace_back(v);
  o.engine.config.served_name = o.server.served_names.front();
  return {};
}
string set_isa(Options& o, string_view v) {
  const auto isa = parse_isa(v);
  if (!isa) return isa.error().message.substr(isa.error().message.find(": ") + 2);  // the flag is named by the caller
  o.engine.config.isa = *isa;
  return {};
}
string refuse_tensor_parallel(Options&, string_view v) {
  return v == "1" ? ""
                  : "tensor parallelism is not implemented. Use --data-parallel-size with --enable-expert-parallel.";
}
string set_backend(Options& o, string_view v) {
  using engine::BackendChoice;
  if (v == "auto") {
    o.engine.config.backend = BackendChoice::automatic;
    return {};
  }
  const auto backend = comm::parse_backend(v);
  if (!backend) return "expected auto, high_throughput (ht), low_latency (ll) or allgather.";
  switch (*backend) {
    case comm::Backend::high_throughput: o.engine.config.backend = BackendChoice::high_throughput; break;
    case comm::Backend::low_latency: o.engine.config.backend = BackendChoice::low_latency; break;
    case comm::Backend::allgather: o.engine.config.backend = BackendChoice::allgather; break;
  }
  if (v != comm::name(*backend)) {
    o.notes.push_back(fmt::format("--all2all-backend {} is Hocket's {}.", v, comm::name(*backend)));
  }
  return {};
}
string set_policy(Options& o, string_view v) {
  using dbo::PolicyKind;
  return choice<PolicyKind>(v, {{"auto", PolicyKind::automatic}, {"threshold", PolicyKind::threshold},
                                {"always", PolicyKind::always}, {"never", PolicyKind::never}},
                            o.engine.config.policy);
}
string set_cut(Options& o, string_view v) {
  using dbo::CutKind;
  return choice<CutKind>(v, {{"auto", CutKind::automatic}, {"token", CutKind::token}, {"request", CutKind::request}},
                         o.engine.config.cut.kind);
}
string set_log_level(Options& o, string_view v) {
  using log::Level;
  return choice<Level>(v, {{"debug", Level::debug}, {"info", Level::info}, {"warning", Level::warning},
                           {"error", Level::error}},
                       o.log_level);
}
string set_tolerance(Options& o, string_view v) {
  string problem;
  if (const auto value = real_in(v, 0, 0.5, problem)) o.engine.config.cut.snap_tolerance = *value;
  return problem;
}
string gain(string_view text, double& out) {
  string problem;
  if (const auto value = real_in(text, 0, 1, problem)) out = *value;
  return problem;
}
string set_routing(Options& o, string_view v) {
  const auto routing = sim::parse_routing(string(v));
  if (!routing) return routing.error().message;
  o.simulate.routing = *routing;
  return {};
}
string set_link_bandwidth(Options& o, string_view v) {
  string problem;
  if (const auto value = real_in(v, 0, 1e6, problem)) o.engine.config.link.bytes_per_second = *value * 1e9;
  return problem;
}
string set_link_latency(Options& o, string_view v) {
  string problem;
  if (const auto value = real_in(v, 0, 1e6, problem)) {
    o.engine.config.link.latency = std::chrono::nanoseconds(static_cast<int64_t>(*value * 1000 + 0.5));
  }
  return problem;
}
string set_top_p(Options& o, string_view v) {
  const string problem = real(v, 0, 1, o.generate.sampling.top_p);
  return problem.empty() && o.generate.sampling.top_p > 0 ? "" : "expected a number above 0 and at most 1.";
}
string add_stop(Options& o, string_view v) {
  if (v.empty()) return "expected a text that is not empty.";
  o.generate.sampling.stop.emplace_back(v);
  return {};
}

// clang-format off
constexpr Flag kEngineFlags[] = {
  {"model", "", kEngineVerbs | kVirtual, Group::model, Takes::value, "MODEL", "a Hugging Face model folder (the bundled tiny-moe-fp8); simulate: a preset or a config.json (qwen3-30b-a3b)", set_model},
  {"served-model-name", "", kEngineVerbs, Group::model, Takes::values, "NAME", "what clients call the model; repeatable, the first is echoed", add_served_name},
  {"max-model-len", "", kEngineVerbs, Group::model, Takes::value, "N", "context length in tokens (from the model's config)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.engine.config.max_model_len); }},
  {"load-format", "", kEngineVerbs, Group::model, Takes::value, "auto|dummy", "dummy: random weights of the model's shape (auto)",
   [](Options& o, string_view v) {
     return choice<model::LoadFormat>(v, {{"auto", model::LoadFormat::automatic}, {"dummy", model::LoadFormat::dummy}}, o.engine.config.load_format); }},
  {"seed", "", kEngineVerbs, Group::model, Takes::value, "N", "of dummy weights, and of sampling in generate (0)",
   [](Options& o, string_view v) { return integer(v, 0, kAny, o.engine.config.seed); }},

  {"trace", "", kEngineVerbs | kSimulate, Group::general, Takes::value, "FILE.json", "writes a Chrome trace of all ranks, for Perfetto and `hocket trace`",
   [](Options& o, string_view v) { return path(v, o.engine.trace); }},
  {"cpu-threads", "", kEngineVerbs, Group::device, Takes::value, "N", "compute threads of all ranks together (the cores)",
   [](Options& o, string_view v) { return integer(v, 1, 1024, o.engine.config.cpu_threads); }},
  {"cpu-isa", "", kEngineVerbs, Group::device, Takes::value, "NAME", "auto, generic, avx2, avx512 or avx512_bf16 (auto)", set_isa},
  {"kv-cache-memory-bytes", "", kEngineVerbs, Group::device, Takes::value, "BYTES", "KV cache of a rank (96M)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.engine.config.kv_bytes); }},
  {"num-kv-blocks", "", kEngineVerbs, Group::device, Takes::value, "N", "KV cache of a rank in blocks, instead of bytes",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.engine.config.kv_blocks); }},
  {"block-size", "", kEngineVerbs, Group::device, Takes::value, "N", "tokens of a KV block (16)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.engine.config.block_size); }},

  {"data-parallel-size", "dp", kEngineVerbs, Group::parallelism, Takes::value, "N", "ranks, each with its own requests (1; 2 for the bundled model)",
   [](Options& o, string_view v) { return integer(v, 1, 64, o.engine.data_parallel); }},
  {"enable-expert-parallel", "ep", kEngineVerbs, Group::parallelism, Takes::boolean, "off", "spread the experts over the ranks",
   [](Options& o, string_view v) { o.engine.expert_parallel = is_true(v); return string(); }},
  {"tensor-parallel-size", "tp", kEngineVerbs, Group::parallelism, Takes::value, "1", "1 only: tensor parallelism is not implemented", refuse_tensor_parallel},
  {"all2all-backend", "", kEngineVerbs | kVirtual, Group::parallelism, Takes::value, "NAME", "auto, high_throughput (ht), low_latency (ll) or allgather (auto)", set_backend},

  {"enable-dbo", "", kEngineVerbs | kSimulate, Group::overlap, Takes::boolean, "auto", "dual-batch overlap; automatic: on where it can engage",
   [](Options& o, string_view v) { o.engine.config.dbo = is_true(v) ? engine::Switch::on : engine::Switch::off; return string(); }},
  {"ubatch-size", "", kEngineVerbs | kSimulate, Group::overlap, Takes::value, "N", "ubatches of a step (2)",
   [](Options& o, string_view v) { return integer(v, 1, 8, o.engine.config.ubatches); }},
  {"dbo-decode-token-threshold", "", kEngineVerbs | kSimulate, Group::overlap, Takes::value, "N", "smallest decode step that is split (32)",
   [](Options& o, string_view v) { return integer(v, 0, kAny, o.engine.config.decode_threshold); }},
  {"dbo-prefill-token-threshold", "", kEngineVerbs | kSimulate, Group::overlap, Takes::value, "N", "smallest other step that is split (512)",
   [](Options& o, string_view v) { return integer(v, 0, kAny, o.engine.config.prefill_threshold); }},
  {"dbo-policy", "", kEngineVerbs | kSimulate, Group::overlap, Takes::value, "NAME", "auto, threshold, always or never (auto)", set_policy},
  {"cost-table", "", kEngineVerbs & ~kCalibrate, Group::overlap, Takes::value, "FILE.json", "what auto decides by, from hocket bench calibrate (none: by the thresholds)",
   [](Options& o, string_view v) { return path(v, o.engine.cost_table); }},
  {"dbo-min-gain", "", kEngineVerbs & ~kCalibrate, Group::overlap, Takes::value, "X", "predicted gain at which auto begins to split (0.05)",
   [](Options& o, string_view v) { return gain(v, o.engine.config.min_gain); }},
  {"dbo-keep-gain", "", kEngineVerbs & ~kCalibrate, Group::overlap, Takes::value, "X", "predicted gain below which auto stops splitting (0.01)",
   [](Options& o, string_view v) { return gain(v, o.engine.config.keep_gain); }},
  {"dbo-cut", "", kEngineVerbs | kSimulate, Group::overlap, Takes::value, "NAME", "auto, token or request: where a step is cut (auto)", set_cut},
  {"dbo-snap-tolerance", "", kEngineVerbs | kSimulate, Group::overlap, Takes::value, "X", "how far from the middle auto moves to a request boundary (0.02)", set_tolerance},
  {"dbo-exchange-timeout-ms", "", kEngineVerbs, Group::overlap, Takes::value, "MS", "longest wait for a peer (10000)",
   [](Options& o, string_view v) {
     int64_t ms = 0;
     string problem = integer(v, 1, 3'600'000, ms);
     o.engine.config.exchange_timeout = std::chrono::milliseconds(ms);
     return problem; }},

  {"max-num-seqs", "", kEngineVerbs | kSimulate, Group::scheduler, Takes::value, "N", "requests of a step and rank (128)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.engine.config.max_seqs); }},
  {"max-num-batched-tokens", "", kEngineVerbs | kVirtual, Group::scheduler, Takes::value, "N", "tokens of a step and rank (2048; simulate and tune: by hardware)",
   [](Options& o, string_view v) {
     string problem = integer(v, 1, kAny, o.engine.config.max_batched_tokens);
     o.simulate.max_batched_tokens = o.engine.config.max_batched_tokens;
     return problem; }},
  {"enable-prefix-caching", "", kEngineVerbs, Group::scheduler, Takes::boolean, "on", "keep the KV blocks of common beginnings",
   [](Options& o, string_view v) { o.engine.config.prefix_caching = is_true(v) ? kv::Caching::on : kv::Caching::off; return string(); }},

  {"config", "", kEngineVerbs | kVirtual, Group::general, Takes::value, "FILE.yaml", "flags without dashes as keys", nullptr},
  {"log-level", "", kEngineVerbs | kVirtual, Group::general, Takes::value, "LEVEL", "debug, info, warning or error (info)", set_log_level},
};

constexpr Flag kCommandFlags[] = {
  {"host", "", kServe, Group::server, Takes::value, "HOST", "address to listen on (127.0.0.1; 0.0.0.0: all)",
   [](Options& o, string_view v) { o.server.host = v; return string(v.empty() ? "expected an address." : ""); }},
  {"port", "", kServe, Group::server, Takes::value, "N", "0: the system picks one (8000)",
   [](Options& o, string_view v) { return integer(v, 0, 65535, o.server.port); }},
  {"max-request-body-bytes", "", kServe, Group::limits, Takes::value, "BYTES", "larger bodies get 413 (32M)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.server.max_request_body_bytes); }},
  {"max-waiting-requests", "", kServe, Group::limits, Takes::value, "N", "more get 429 (8192)",
   [](Options& o, string_view v) { return integer(v, 0, kAny, o.server.max_waiting_requests); }},
  {"max-connections", "", kServe, Group::limits, Takes::value, "N", "more are not accepted until one closes (16384)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.server.max_connections); }},
  {"max-logprobs", "", kServe, Group::limits, Takes::value, "N", "largest logprobs of a request (20)",
   [](Options& o, string_view v) { return integer(v, 0, 20, o.server.max_logprobs); }},
  {"header-timeout", "", kServe, Group::limits, Takes::value, "S", "seconds for a request's header (10)",
   [](Options& o, string_view v) { return seconds(v, o.server.header_timeout); }},
  {"body-timeout", "", kServe, Group::limits, Takes::value, "S", "seconds for a request's body (30)",
   [](Options& o, string_view v) { return seconds(v, o.server.body_timeout); }},
  {"keep-alive-timeout", "", kServe, Group::limits, Takes::value, "S", "seconds that an idle connection stays open (75)",
   [](Options& o, string_view v) { return seconds(v, o.server.keep_alive_timeout); }},
  {"shutdown-timeout", "", kServe, Group::limits, Takes::value, "S", "seconds that accepted requests have on SIGTERM (30)",
   [](Options& o, string_view v) { return seconds(v, o.server.shutdown_timeout); }},

  {"prompt", "p", kGenerate, Group::prompt, Takes::values, "TEXT", "repeatable",
   [](Options& o, string_view v) { o.generate.prompts.emplace_back(v); return string(); }},
  {"prompt-file", "", kGenerate, Group::prompt, Takes::value, "FILE", "prompts from a file",
   [](Options& o, string_view v) { return path(v, o.generate.prompt_file); }},
  {"temperature", "", kGenerate, Group::sampling, Takes::value, "X", "0: greedy (0)",
   [](Options& o, string_view v) { return real(v, 0, 2, o.generate.sampling.temperature); }},
  {"top-p", "", kGenerate, Group::sampling, Takes::value, "X", "smallest set with this much probability (1)", set_top_p},
  {"top-k", "", kGenerate, Group::sampling, Takes::value, "N", "the k most likely; 0 and -1: all (0)",
   [](Options& o, string_view v) { return integer(v, -1, std::numeric_limits<int>::max(), o.generate.sampling.top_k); }},
  {"min-p", "", kGenerate, Group::sampling, Takes::value, "X", "at least this share of the likeliest (0)",
   [](Options& o, string_view v) { return real(v, 0, 1, o.generate.sampling.min_p); }},
  {"max-tokens", "", kGenerate | kEval, Group::sampling, Takes::value, "N", "tokens generated at most (generate 128, eval 256)",
   [](Options& o, string_view v) {
     string problem = integer(v, 1, kAny, o.eval.max_tokens);
     o.generate.sampling.max_tokens = o.eval.max_tokens;
     return problem; }},
  {"min-tokens", "", kGenerate, Group::sampling, Takes::value, "N", "no end before so many (0)",
   [](Options& o, string_view v) { return integer(v, 0, kAny, o.generate.sampling.min_tokens); }},
  {"stop", "", kGenerate, Group::sampling, Takes::values, "TEXT", "ends the text; repeatable", add_stop},
  {"ignore-eos", "", kGenerate, Group::sampling, Takes::boolean, "off", "go on after an end-of-text token",
   [](Options& o, string_view v) { o.generate.sampling.ignore_eos = is_true(v); return string(); }},

  {"problems", "", kEval, Group::task, Takes::value, "FILE.jsonl", "lines of {\"question\", \"answer\"}",
   [](Options& o, string_view v) { return path(v, o.eval.problems); }},
  {"fewshot", "", kEval, Group::task, Takes::value, "FILE.jsonl", "worked examples",
   [](Options& o, string_view v) { return path(v, o.eval.fewshot); }},
  {"num-fewshot", "", kEval, Group::task, Takes::value, "N", "examples before each question (5)",
   [](Options& o, string_view v) { return integer(v, 0, kAny, o.eval.num_fewshot); }},
  {"limit", "", kEval, Group::task, Takes::value, "N", "only the first so many problems",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.eval.limit); }},
  {"json", "", kGenerate | kEval | kTrace | kSimulate, Group::task, Takes::boolean, "off", "one JSON object for each result",
   [](Options& o, string_view v) { o.generate.output = o.eval.output = o.trace.output = o.simulate.output = is_true(v) ? Output::json : Output::text; return string(); }},
  {"hardware", "", kVirtual, Group::simulation, Takes::value, "NAME", "h100-sxm, h800-sxm, h200-sxm, b200, gb200-nvl72, cpu-net or a YAML file (h200-sxm)",
   [](Options& o, string_view v) { o.simulate.hardware = v; return string(v.empty() ? "expected a name." : ""); }},
  {"num-gpus", "", kVirtual, Group::simulation, Takes::value, "N", "ranks, attention data parallel, experts expert parallel (8)",
   [](Options& o, string_view v) { return integer(v, 1, 512, o.simulate.ranks); }},
  {"max-concurrency", "", kSimulate, Group::simulation, Takes::value, "N", "requests in flight over all ranks; 0: all (0)",
   [](Options& o, string_view v) { return integer(v, 0, kAny, o.simulate.max_concurrency); }},
  {"comm-sms", "", kVirtual, Group::simulation, Takes::value, "N", "SMs that a high-throughput exchange holds (20)",
   [](Options& o, string_view v) { return integer(v, 1, 1024, o.simulate.comm_sms); }},
  {"routing", "", kVirtual, Group::simulation, Takes::value, "NAME", "uniform, zipf:S, or one-expert: all rows to one rank (uniform)", set_routing},
  {"event-capture", "", kSimulate, Group::simulation, Takes::value, "NAME", "before-yield, or after-yield: the fault of vLLM #38451 (before-yield)",
   [](Options& o, string_view v) {
     return choice<sim::EventCapture>(v, {{"before-yield", sim::EventCapture::before_yield}, {"after-yield", sim::EventCapture::after_yield}}, o.simulate.capture); }},
  {"schedule", "", kSimulate, Group::simulation, Takes::value, "NAME", "hocket, or vllm: three hand-overs, its host costs (hocket)",
   [](Options& o, string_view v) {
     return choice<sim::Schedule>(v, {{"hocket", sim::Schedule::hocket}, {"vllm", sim::Schedule::vllm}}, o.simulate.schedule); }},
  {"output", "", kTune | kCalibrate, Group::task, Takes::value, "FILE", "tune: thresholds for serve --config (YAML); calibrate: the cost table (costs.json)",
   [](Options& o, string_view v) {
     string problem = path(v, o.simulate.output_yaml);
     o.calibrate.output = o.simulate.output_yaml;
     return problem; }},
  {"file", "", kTrace, Group::task, Takes::value, "FILE", "the trace; also as the first argument",
   [](Options& o, string_view v) { return path(v, o.trace.file); }},
  {"svg", "", kTrace, Group::task, Takes::value, "FILE.svg", "draws the timeline of one step",
   [](Options& o, string_view v) { return path(v, o.trace.svg); }},
  {"step", "", kTrace, Group::task, Takes::value, "N", "only this step (figures: all; picture: a typical one)",
   [](Options& o, string_view v) { return integer(v, 0, kAny, o.trace.step); }},
  {"link-bandwidth", "", kBench | kCalibrate, Group::device, Takes::value, "GB/s", "emulates a link between ranks: what leaves a rank; 0: no limit (0)", set_link_bandwidth},
  {"link-latency", "", kBench | kCalibrate, Group::device, Takes::value, "US", "microseconds that a message is on the emulated link after it left (0)", set_link_latency},
  {"input-len", "", kBench | kVirtual, Group::task, Takes::value, "N", "prompt tokens of a request (1024)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.throughput.input_len); }},
  {"output-len", "", kBench | kSimulate, Group::task, Takes::value, "N", "generated tokens of a request (128)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.throughput.output_len); }},
  {"num-prompts", "", kBench | kSimulate, Group::task, Takes::value, "N", "requests (1000)",
   [](Options& o, string_view v) { return integer(v, 1, kAny, o.throughput.num_prompts); }},
  {"output-json", "", kBench, Group::task, Takes::value, "FILE", "where the figures go as JSON",
   [](Options& o, string_view v) { return path(v, o.throughput.output_json); }},
};
// clang-format on

}  // namespace

std::span<const Flag> engine_flags() { return kEngineFlags; }
std::span<const Flag> command_flags() { return kCommandFlags; }

std::string_view title(Group group) {
  switch (group) {
    case Group::model: return "Model";
    case Group::device: return "Device";
    case Group::parallelism: return "Parallelism";
    case Group::overlap: return "Dual-batch overlap";
    case Group::scheduler: return "Scheduler";
    case Group::server: return "Server";
    case Group::limits: return "Limits";
    case Group::prompt: return "Prompt";
    case Group::sampling: return "Sampling";
    case Group::simulation: return "Simulation";
    case Group::task: return "Task";
    case Group::general: return "General";
  }
  return "";
}

}  // namespace hocket::cli
