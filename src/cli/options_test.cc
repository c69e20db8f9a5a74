#include "cli/options.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hocket::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

Options parse(const Words& arguments, const Words& environment = {}) {
  auto parsed = parse_options(arguments, environment);
  if (!parsed) {
    for (const std::string& error : parsed.error()) ADD_FAILURE() << error;
    return {};
  }
  return *parsed;
}
Words errors(const Words& arguments, const Words& environment = {}) {
  auto parsed = parse_options(arguments, environment);
  return parsed ? Words{"(accepted)"} : parsed.error();
}

/// A YAML file in a folder of its own.
class YamlFile {
 public:
  explicit YamlFile(std::string_view content) {
    folder_ = std::filesystem::temp_directory_path() / "hocket_options_XXXXXX";
    std::string name = folder_.string();
    folder_ = mkdtemp(name.data());
    std::ofstream(path()) << content;
  }
  ~YamlFile() { std::filesystem::remove_all(folder_); }
  YamlFile(const YamlFile&) = delete;
  YamlFile& operator=(const YamlFile&) = delete;
  std::string path() const { return (folder_ / "serve.yaml").string(); }

 private:
  std::filesystem::path folder_;
};

TEST(Options, NothingGivenLeavesTheDefaults) {
  const Options o = parse({"serve"});
  EXPECT_EQ(o.verb, Verb::serve);
  EXPECT_EQ(o.engine.config.model, "");
  EXPECT_EQ(o.engine.data_parallel, std::nullopt);
  EXPECT_EQ(o.engine.expert_parallel, std::nullopt);
  EXPECT_EQ(o.engine.config.dbo, engine::Switch::automatic);
  EXPECT_EQ(o.engine.config.ubatches, std::nullopt);
  EXPECT_EQ(o.engine.config.isa, best_isa());
  EXPECT_EQ(o.server.host, "127.0.0.1");
  EXPECT_EQ(o.server.port, 8000);
  EXPECT_THAT(o.notes, IsEmpty());
}

TEST(Options, TheCommandOfVllmWorksAsItIs) {
  const Options o = parse({"serve", "Qwen/Qwen3", "-dp", "4", "-tp=1", "-ep", "--enable-dbo", "--dbo-decode-token-threshold",
                           "16", "--dbo_prefill_token_threshold=256", "--all2all-backend", "deepep_high_throughput",
                           "--load-format", "dummy", "--max-model-len", "32k", "--no-enable-prefix-caching", "--host",
                           "0.0.0.0", "--port", "0", "--served-model-name", "a", "--served-model-name=b"});
  EXPECT_EQ(o.engine.config.model, "Qwen/Qwen3");
  EXPECT_EQ(o.engine.data_parallel, 4);
  EXPECT_EQ(o.engine.config.data_parallel, 4);
  EXPECT_EQ(o.engine.expert_parallel, true);
  EXPECT_TRUE(o.engine.config.expert_parallel);
  EXPECT_EQ(o.engine.config.dbo, engine::Switch::on);
  EXPECT_EQ(o.engine.config.decode_threshold, 16);
  EXPECT_EQ(o.engine.config.prefill_threshold, 256);
  EXPECT_EQ(o.engine.config.backend, engine::BackendChoice::high_throughput);
  EXPECT_EQ(o.engine.config.load_format, model::LoadFormat::dummy);
  EXPECT_EQ(o.engine.config.max_model_len, 32000);
  EXPECT_EQ(o.engine.config.prefix_caching, kv::Caching::off);
  EXPECT_EQ(o.server.host, "0.0.0.0");
  EXPECT_EQ(o.server.port, 0);
  EXPECT_THAT(o.server.served_names, ElementsAre("a", "b"));
  EXPECT_EQ(o.engine.config.served_name, "a");
  EXPECT_THAT(o.notes, ElementsAre("--all2all-backend deepep_high_throughput is Hocket's high_throughput."));
}

TEST(Options, EveryOtherEngineFlagArrives) {
  const Options o = parse({"serve",        "--no-enable-expert-parallel", "--no-enable-dbo", "--ubatch-size", "3",
                           "--dbo-policy", "always", "--dbo-cut", "request", "--dbo-snap-tolerance", "0.1",
                           "--max-num-seqs", "7", "--max-num-batched-tokens", "4K", "--block-size", "32", "--seed", "9",
                           "--cpu-threads", "2", "--cpu-isa", "generic", "--kv-cache-memory-bytes", "1G",
                           "--num-kv-blocks", "99", "--dbo-exchange-timeout-ms", "250", "--log-level", "debug",
                           "--shutdown-timeout", "1.5", "--max-request-body-bytes", "1M"});
  const engine::Config& c = o.engine.config;
  EXPECT_EQ(o.engine.expert_parallel, false);
  EXPECT_EQ(c.dbo, engine::Switch::off);
  EXPECT_EQ(c.ubatches, 3);
  EXPECT_EQ(c.policy, dbo::PolicyKind::always);
  EXPECT_EQ(c.cut.kind, dbo::CutKind::request);
  EXPECT_EQ(c.cut.snap_tolerance, 0.1);
  EXPECT_EQ(c.max_seqs, 7);
  EXPECT_EQ(c.max_batched_tokens, 4096);
  EXPECT_EQ(c.block_size, 32);
  EXPECT_EQ(c.seed, 9U);
  EXPECT_EQ(c.cpu_threads, 2);
  EXPECT_EQ(c.isa, Isa::generic);
  EXPECT_EQ(c.kv_bytes, int64_t{1} << 30);
  EXPECT_EQ(c.kv_blocks, 99);
  EXPECT_EQ(c.exchange_timeout, std::chrono::milliseconds(250));
  EXPECT_EQ(o.log_level, log::Level::debug);
  EXPECT_EQ(o.server.shutdown_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(o.server.max_request_body_bytes, 1 << 20);
}

TEST(Options, GenerateTakesPromptsAndSampling) {
  const Options o = parse({"generate", "model", "-p", "-5 + 3", "--prompt", "--snake_case", "--max-tokens", "9", "--min-tokens",
                           "2", "--temperature", "0.5", "--top-p", "0.9", "--top-k", "-1", "--min-p", "0.1", "--stop", "a_b",
                           "--stop", "\n", "--ignore-eos", "--json", "--seed", "3"});
  EXPECT_EQ(o.verb, Verb::generate);
  EXPECT_EQ(o.engine.config.model, "model");
  EXPECT_THAT(o.generate.prompts, ElementsAre("-5 + 3", "--snake_case"));
  const sched::SamplingParams& s = o.generate.sampling;
  EXPECT_EQ(s.max_tokens, 9);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.temperature, 0.5F);
  EXPECT_EQ(s.top_p, 0.9F);
  EXPECT_EQ(s.top_k, -1);
  EXPECT_EQ(s.min_p, 0.1F);
  EXPECT_THAT(s.stop, ElementsAre("a_b", "\n"));
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_EQ(s.seed, 3U);
  EXPECT_EQ(o.generate.output, Output::json);
}

TEST(Options, GenerateIsGreedyWith128TokensByDefault) {
  const Options o = parse({"generate", "--prompt-file", "f.txt"});
  EXPECT_EQ(o.generate.sampling.temperature, 0);
  EXPECT_EQ(o.generate.sampling.max_tokens, 128);
  EXPECT_EQ(o.generate.prompt_file, "f.txt");
  EXPECT_THAT(errors({"generate"}),
              ElementsAre("configuration error: no prompt. Give --prompt TEXT or --prompt-file FILE."));
}

TEST(Options, EvalAndBenchTakeTheirOwn) {
  const Options e = parse({"eval", "m", "--problems", "p.jsonl", "--fewshot", "f.jsonl", "--num-fewshot", "3", "--limit", "10",
                           "--max-tokens", "64", "--json"});
  EXPECT_EQ(e.verb, Verb::eval);
  EXPECT_EQ(e.eval.problems, "p.jsonl");
  EXPECT_EQ(e.eval.fewshot, "f.jsonl");
  EXPECT_EQ(e.eval.num_fewshot, 3);
  EXPECT_EQ(e.eval.limit, 10);
  EXPECT_EQ(e.eval.max_tokens, 64);
  EXPECT_EQ(e.eval.output, Output::json);
  EXPECT_EQ(parse({"eval"}).eval.max_tokens, 256);

  const Options b = parse({"bench", "throughput", "m", "--input-len", "8", "--output-len", "4", "--num-prompts", "2",
                           "--output-json", "o.json"});
  EXPECT_EQ(b.verb, Verb::bench_throughput);
  EXPECT_EQ(b.engine.config.model, "m");
  EXPECT_EQ(b.throughput.input_len, 8);
  EXPECT_EQ(b.throughput.output_len, 4);
  EXPECT_EQ(b.throughput.num_prompts, 2);
  EXPECT_EQ(b.throughput.output_json, "o.json");
}

TEST(Options, TheLastOfTwoWins) {
  EXPECT_EQ(parse({"serve", "--enable-dbo", "--no-enable-dbo"}).engine.config.dbo, engine::Switch::off);
  EXPECT_EQ(parse({"serve", "--port", "1", "--port", "2"}).server.port, 2);
  EXPECT_EQ(parse({"serve", "--enable-dbo=no"}).engine.config.dbo, engine::Switch::off);
}

TEST(Options, UnknownOptionsAreNamedWithTheNearest) {
  EXPECT_THAT(errors({"serve", "--enable-dbp"}),
              ElementsAre("configuration error: unknown option --enable-dbp. Did you mean --enable-dbo?"));
  EXPECT_THAT(errors({"serve", "--max_modl_len=4"}),
              ElementsAre("configuration error: unknown option --max_modl_len. Did you mean --max-model-len?"));
  EXPECT_THAT(errors({"serve", "--no-enable-dbp"}),
              ElementsAre("configuration error: unknown option --no-enable-dbp. Did you mean --no-enable-dbo?"));
  EXPECT_THAT(errors({"serve", "--no-port"}), ElementsAre(HasSubstr("unknown option --no-port.")));
  EXPECT_THAT(errors({"serve", "--xyzzyxyzzy"}), ElementsAre("configuration error: unknown option --xyzzyxyzzy."));
  EXPECT_THAT(errors({"serve", "--limit", "--problems=a"}),
              ElementsAre("configuration error: option --limit belongs to `hocket eval`.",
                          "configuration error: option --problems belongs to `hocket eval`."));
  EXPECT_THAT(errors({"serve", "-x"}), ElementsAre("configuration error: unknown option -x."));
}

TEST(Options, AllProblemsComeAtOnce) {
  EXPECT_THAT(errors({"serve", "a", "b", "--port", "99999", "--enable-dbp", "--max-num-seqs", "1.5", "--host"}),
              ElementsAre("configuration error: unexpected argument b: a model was already given.",
                          "configuration error: unknown option --enable-dbp. Did you mean --enable-dbo?",
                          "configuration error: --host: expected a value.",
                          "configuration error: --port 99999: expected an integer from 0 to 65535.",
                          "configuration error: --max-num-seqs 1.5: expected an integer of 1 or more."));
}

TEST(Options, BadValuesSayWhatWasExpected) {
  EXPECT_THAT(errors({"serve", "-tp", "2"}),
              ElementsAre("configuration error: --tensor-parallel-size 2: tensor parallelism is not implemented. Use "
                          "--data-parallel-size with --enable-expert-parallel."));
  EXPECT_THAT(errors({"serve", "--all2all-backend", "pplx"}),
              ElementsAre("configuration error: --all2all-backend pplx: expected auto, high_throughput (ht), low_latency "
                          "(ll) or allgather."));
  EXPECT_THAT(errors({"serve", "--dbo-policy", "maybe"}),
              ElementsAre("configuration error: --dbo-policy maybe: expected auto, threshold, always or never."));
  EXPECT_THAT(errors({"serve", "--cpu-isa", "mmx"}),
              ElementsAre(HasSubstr("configuration error: --cpu-isa mmx: this processor supports generic")));
  EXPECT_THAT(errors({"serve", "--no-enable-dbo=1"}), ElementsAre("configuration error: --no-enable-dbo takes no value."));
  EXPECT_THAT(errors({"serve", "--enable-dbo=banana"}),
              ElementsAre("configuration error: --enable-dbo banana: expected a boolean (1/0, true/false, yes/no, on/off)."));
  EXPECT_THAT(errors({"generate", "-p", "x", "--top-p", "0"}),
              ElementsAre("configuration error: --top-p 0: expected a number above 0 and at most 1."));
  EXPECT_THAT(errors({"generate", "-p", "x", "--temperature", "nan"}),
              ElementsAre("configuration error: --temperature nan: expected a number from 0 to 2."));
  EXPECT_THAT(errors({"generate", "-p", "x", "--min-tokens", "5", "--max-tokens", "4"}),
              ElementsAre("configuration error: --min-tokens 5 is above --max-tokens 4."));
}

TEST(Options, TheEnvironmentHasEveryFlag) {
  const Options o = parse({"serve"}, {"HOCKET_ENABLE_DBO=off", "HOCKET_MAX_NUM_SEQS=5", "HOCKET_MODEL=folder", "PATH=/bin",
                                      "HOCKET_TOP_K=banana", "HOCKET_DATA_PARALLEL_SIZE=2"});
  EXPECT_EQ(o.engine.config.dbo, engine::Switch::off);
  EXPECT_EQ(o.engine.config.max_seqs, 5);
  EXPECT_EQ(o.engine.config.model, "folder");
  EXPECT_EQ(o.engine.data_parallel, 2);
  EXPECT_THAT(o.notes, IsEmpty());  // HOCKET_TOP_K is another command's
  EXPECT_THAT(errors({"serve"}, {"HOCKET_ENABLE_DBO=banana"}),
              ElementsAre("configuration error: HOCKET_ENABLE_DBO=banana: expected a boolean (1/0, true/false, yes/no, "
                          "on/off)."));
}

TEST(Options, UnknownVariablesAreWarnedOf) {
  EXPECT_THAT(parse({"serve"}, {"HOCKET_MAX_NUM_SEQ=5", "VLLM_API_KEY=secret", "VLLM_ALL2ALL_BACKEND=naive"}).notes,
              ElementsAre("warning: unknown environment variable HOCKET_MAX_NUM_SEQ. Did you mean HOCKET_MAX_NUM_SEQS?",
                          "warning: environment variable VLLM_API_KEY is not read by Hocket.",
                          "VLLM_ALL2ALL_BACKEND=naive is read as --all2all-backend.",
                          "--all2all-backend naive is Hocket's allgather."));
  EXPECT_EQ(parse({"serve"}, {"VLLM_ALL2ALL_BACKEND=naive", "HOCKET_ALL2ALL_BACKEND=ll"}).engine.config.backend,
            engine::BackendChoice::low_latency);
}

TEST(Options, TheCommandLineWinsOverTheEnvironmentOverTheFile) {
  const YamlFile file(
      "model: from_file\n"
      "port: 1\n"
      "max_num_seqs: 1\n"
      "block-size: 48\n"
      "enable_dbo: false\n"
      "served-model-name: [x, y]\n");
  const Options o = parse({"serve", "--config", file.path(), "--port", "3"},
                          {"HOCKET_PORT=2", "HOCKET_MAX_NUM_SEQS=2", "HOCKET_SERVED_MODEL_NAME=z"});
  EXPECT_EQ(o.server.port, 3);
  EXPECT_EQ(o.engine.config.max_seqs, 2);
  EXPECT_EQ(o.engine.config.block_size, 48);
  EXPECT_EQ(o.engine.config.dbo, engine::Switch::off);
  EXPECT_EQ(o.engine.config.model, "from_file");
  EXPECT_THAT(o.server.served_names, ElementsAre("z"));
  EXPECT_THAT(parse({"serve", "--config", file.path()}).server.served_names, ElementsAre("x", "y"));
  EXPECT_EQ(parse({"serve"}, {"HOCKET_CONFIG=" + file.path()}).server.port, 1);
}

TEST(Options, YamlErrorsNameFileAndLine) {
  const YamlFile file(
      "port: 99999\n"
      "enable_dbp: true\n"
      "host: [a, b]\n"
      "seed:\n"
      "port: 5\n"
      "enable-dbo: maybe\n"
      "stop: [x]\n"
      "config: other.yaml\n");
  EXPECT_THAT(errors({"serve", "--config", file.path()}),
              ElementsAre("configuration error: serve.yaml:2: unknown key \"enable_dbp\". Did you mean \"enable_dbo\"?",
                          "configuration error: serve.yaml:3: host: expected one value.",
                          "configuration error: serve.yaml:4: seed: expected one value.",
                          "configuration error: serve.yaml:5: the key \"port\" is there twice.",
                          "configuration error: serve.yaml:7: unknown key \"stop\".",
                          "configuration error: serve.yaml:8: config: a file cannot name another one.",
                          "configuration error: serve.yaml:1: port 99999: expected an integer from 0 to 65535.",
                          "configuration error: serve.yaml:6: enable-dbo maybe: expected a boolean (1/0, true/false, "
                          "yes/no, on/off)."));
}

TEST(Options, YamlThatIsNoneIsRefused) {
  EXPECT_THAT(errors({"serve", "--config", "/nonexistent/x.yaml"}),
              ElementsAre("configuration error: --config /nonexistent/x.yaml: the file cannot be read."));
  const YamlFile broken("port: [1\nhost: 2"), list("- a\n"), empty("");
  EXPECT_THAT(errors({"serve", "--config", broken.path()}), ElementsAre(HasSubstr("configuration error: serve.yaml:2: not YAML: ")));
  EXPECT_THAT(errors({"serve", "--config", list.path()}),
              ElementsAre("configuration error: serve.yaml:1: expected lines of `key: value`."));
  EXPECT_EQ(parse({"serve", "--config", empty.path()}).server.port, 8000);
}

TEST(Options, TracesAndLinks) {
  const Options t = parse({"trace", "t.json", "--svg", "t.svg", "--step", "7", "--json"});
  EXPECT_EQ(t.verb, Verb::trace);
  EXPECT_EQ(t.trace.file, "t.json");
  EXPECT_EQ(t.trace.svg, "t.svg");
  EXPECT_EQ(t.trace.step, 7);
  EXPECT_EQ(t.trace.output, Output::json);
  EXPECT_THAT(errors({"trace"}), ElementsAre(HasSubstr("no trace.")));
  EXPECT_THAT(errors({"trace", "a", "b"}), ElementsAre(HasSubstr("a file was already given")));
  const Options b = parse({"bench", "throughput", "--trace", "f.json", "--link-bandwidth", "0.1", "--link-latency", "20"});
  EXPECT_EQ(b.engine.trace, "f.json");
  EXPECT_DOUBLE_EQ(b.engine.config.link.bytes_per_second, 1e8);
  EXPECT_EQ(b.engine.config.link.latency, std::chrono::microseconds(20));
  EXPECT_THAT(errors({"serve", "--link-bandwidth", "1"}), ElementsAre(HasSubstr("belongs to `hocket bench throughput`")));
  EXPECT_THAT(errors({"bench", "throughput", "--link-bandwidth", "-1"}), ElementsAre(HasSubstr("--link-bandwidth -1: ")));
}

TEST(Options, CommandsThatDoNotExist) {
  EXPECT_THAT(errors({"sreve"}), ElementsAre("configuration error: unknown command sreve. Did you mean serve?"));
  EXPECT_THAT(errors({"bench"}), ElementsAre("configuration error: bench what? Use `hocket bench throughput`."));
  EXPECT_THAT(errors({}), ElementsAre(HasSubstr("no command.")));
}

TEST(Options, HelpListsTheFlagsOfACommandInGroups) {
  EXPECT_THAT(parse({"--help"}).help, HasSubstr("bench throughput"));
  EXPECT_EQ(parse({"--version"}).verb, Verb::version);
  const Options serve = parse({"serve", "--nonsense", "--help"});
  EXPECT_EQ(serve.verb, Verb::help);
  EXPECT_THAT(serve.help, HasSubstr("\nDual-batch overlap\n  --enable-dbo "));
  EXPECT_THAT(serve.help, HasSubstr("  -dp, --data-parallel-size N"));
  EXPECT_THAT(serve.help, HasSubstr("--port N"));
  EXPECT_THAT(serve.help, Not(HasSubstr("--problems")));
  EXPECT_THAT(parse({"eval", "-h"}).help, HasSubstr("--problems FILE.jsonl"));
}

}  // namespace
}  // namespace hocket::cli
