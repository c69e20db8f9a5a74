#!/usr/bin/env python3
"""The command line as a user types it, with its mistakes. usage: cli_test.py HOCKET MODEL DATA"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HOCKET, MODEL, DATA = sys.argv[1:4]
# ends with <|im_end|>
PROMPT = ("<|im_start|>user\nFinn has 8 rows with 3 plates in each. How many plates does Finn have now?<|im_end|>\n"
          "<|im_start|>assistant\n")


def hocket(*args, **kwargs):
    return subprocess.run([HOCKET, *args], capture_output=True, text=True, timeout=120, check=False, **kwargs)


class CommandTest(unittest.TestCase):
    def refused(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr)
        last = done.stderr.strip().splitlines()[-1]
        for word in words:
            self.assertIn(word, last)
        self.assertNotIn("terminate called", done.stderr)

    def test_generate_json(self):
        done = hocket("generate", MODEL, "--prompt", PROMPT, "--max-tokens", "64", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(set(answer), {"prompt_token_ids", "token_ids", "text", "logprobs", "finish_reason"})
        self.assertIn("#### 24", answer["text"])
        self.assertEqual(len(answer["token_ids"]), len(answer["logprobs"]))
        self.assertEqual(answer["finish_reason"], "stop")
        self.assertTrue(all(value <= 0 for value in answer["logprobs"]))

    def test_generate_prints_only_text_on_stdout(self):
        done = hocket("generate", MODEL, "--prompt", PROMPT, "--max-tokens", "64")
        self.assertIn("#### 24", done.stdout)
        self.assertNotIn("Loading", done.stdout)

    def test_every_isa_gives_the_same_ids(self):
        seen = set()
        for isa in ("generic", "avx2", "avx512", "avx512_bf16"):
            done = hocket("generate", MODEL, "--prompt", PROMPT, "--max-tokens", "24", "--json", "--cpu-isa", isa)
            if done.returncode == 2 and "this processor supports" in done.stderr:
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            answer = json.loads(done.stdout)
            seen.add((tuple(answer["token_ids"]), tuple(answer["logprobs"])))
        self.assertEqual(len(seen), 1)

    def test_bundled_model_is_the_default(self):
        done = hocket("generate", "--prompt", PROMPT, "--max-tokens", "8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("DP2 EP2", done.stderr)
        self.assertIn("DBO on", done.stderr)

    def test_dummy_weights_need_no_weight_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("config.json", "tokenizer.json"):
                shutil.copy(f"{MODEL}/{name}", folder)
            done = hocket("generate", folder, "--prompt", "a", "--max-tokens", "4", "--load-format", "dummy", "--ignore-eos")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.refused(hocket("generate", folder, "--prompt", "a"), 3, "model.safetensors")

    def test_usage_errors(self):
        self.refused(hocket("generate", MODEL, "--prompt", "a", "--enable-dbp"), 2, "unknown option --enable-dbp",
                     "--enable-dbo")
        self.refused(hocket("generate", MODEL, "--prompt", ""), 3, "prompt is empty")
        self.refused(hocket("generate", MODEL, "--prompt", "a" * 9000), 3, "maximum context length is 4096")
        self.refused(hocket("generate", "/nonexistent", "--prompt", "a"), 3, "/nonexistent")
        self.refused(hocket("serve", MODEL, "--enable-dbo"), 2, "--data-parallel-size is 1")
        self.refused(hocket("serve", MODEL, "-dp", "3", "-ep"), 2, "16 experts cannot be spread evenly over 3")
        self.refused(hocket("serve", MODEL, "-tp", "2"), 2, "tensor parallelism is not implemented")
        self.refused(hocket("serve", MODEL, "--max-model-len", "5000"), 2, "exceeds the model's 4096 positions")

    def test_bad_utf8_prompt(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "prompt.txt")
            path.write_bytes(b"ok \xff\xfe")
            self.refused(hocket("generate", MODEL, "--prompt-file", str(path)), 3, "UTF-8", "3")

    def test_help_and_version(self):
        self.assertEqual(hocket("--help").returncode, 0)
        self.assertIn("--enable-dbo", hocket("serve", "--help").stdout)
        self.assertEqual(hocket("--version").returncode, 0)
        self.assertEqual(hocket("nonsense").returncode, 2)

    def test_broken_models(self):
        cases = [
            ("truncated shard", lambda f: os.truncate(f / "model.safetensors", 4_000_000), ["model.safetensors"]),
            ("missing shard", lambda f: os.remove(f / "model.safetensors"), ["model.safetensors"]),
            ("unknown architecture", self.edit("model_type", "mixtral"), ['model_type "mixtral" is not supported']),
            ("unknown quantisation", self.edit("quantization_config", {"quant_method": "gptq"}), ["gptq"]),
            ("config against weights", self.edit("hidden_size", 512), ["512", "256"]),
        ]
        for name, damage, words in cases:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder, "model")
                shutil.copytree(MODEL, copy)
                damage(copy)
                self.refused(hocket("generate", str(copy), "--prompt", "a"), 3, *words)

    @staticmethod
    def edit(key, value):
        def change(folder):
            path = folder / "config.json"
            config = json.loads(path.read_text())
            config[key] = value
            path.write_text(json.dumps(config))
        return change

    def test_bench_throughput(self):
        done = hocket("bench", "throughput", MODEL, "--input-len", "32", "--output-len", "8", "--num-prompts", "4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"Throughput: [\d.]+ requests/s, [\d.]+ total tokens/s, [\d.]+ output tokens/s")

    def test_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, svg = f"{folder}/t.json", f"{folder}/t.svg"
            command = ["generate", "--prompt", PROMPT, "--max-tokens", "8"]
            plain, traced = hocket(*command), hocket(*command, "--trace", trace)
            self.assertEqual(traced.returncode, 0, traced.stderr)
            self.assertEqual(traced.stdout, plain.stdout)
            events = json.loads(pathlib.Path(trace).read_text())["traceEvents"]
            self.assertEqual({e["pid"] for e in events}, {0, 1})
            done = hocket("trace", trace, "--json", "--svg", svg)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(json.loads(done.stdout)["gaps"]), 10)
            self.assertIn("</svg>", pathlib.Path(svg).read_text())
            self.assertIn("overlap efficiency", hocket("trace", trace, "--step", "0").stdout)
            self.refused(hocket("trace", trace, "--step", "99999"), 3, "step 99999")
            self.refused(hocket("trace", f"{folder}/none.json"), 3, "no such file")
            self.refused(hocket("trace", trace, "--svg", "/dev/full"), 1, "/dev/full")
            self.refused(hocket(*command, "--trace", "/nonexistent/t.json"), 2, "/nonexistent/t.json")
            full = hocket(*command, "--trace", "/dev/full")
            self.refused(full, 1, "/dev/full", "No space left")
            self.assertEqual(full.stdout, plain.stdout)
            damaged = pathlib.Path(folder, "damaged.json")
            damaged.write_text(pathlib.Path(trace).read_text()[:1000])
            self.refused(hocket("trace", str(damaged)), 3, "damaged.json: not a trace")

    def test_an_emulated_link_changes_no_token(self):
        digests = set()
        with tempfile.TemporaryDirectory() as folder:
            for link in ([], ["--link-bandwidth", "0.05", "--link-latency", "50"]):
                out = f"{folder}/o.json"
                done = hocket("bench", "throughput", "--input-len", "64", "--output-len", "4", "--num-prompts", "4",
                              "--output-json", out, *link)
                self.assertEqual(done.returncode, 0, done.stderr)
                digests.add(json.loads(pathlib.Path(out).read_text())["token_ids_sha256"])
        self.assertEqual(len(digests), 1)

    def test_a_cost_table_is_measured_used_and_refused_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            table = f"{folder}/costs.json"
            done = hocket("bench", "calibrate", "--max-num-batched-tokens", "256", "--max-num-seqs", "8", "--output", table)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("predicted gain of two ubatches", done.stdout)
            run = ["bench", "throughput", "--input-len", "200", "--output-len", "4", "--num-prompts", "8",
                   "--dbo-prefill-token-threshold", "0", "--output-json", f"{folder}/o.json"]
            digests = set()
            for policy in (["--dbo-policy", "never"], ["--cost-table", table, "--dbo-min-gain", "0", "--dbo-keep-gain", "0"]):
                done = hocket(*run, *policy)
                self.assertEqual(done.returncode, 0, done.stderr)
                digests.add(json.loads(pathlib.Path(folder, "o.json").read_text())["token_ids_sha256"])
            self.assertIn("policy auto with a cost table", done.stderr)
            self.assertEqual(len(digests), 1)
            self.refused(hocket(*run, "--cost-table", table, "--cpu-isa", "generic"), 2, "--cost-table", "generic")
            self.refused(hocket(*run, "--cost-table", table, "--dbo-keep-gain", "0.5"), 2, "--dbo-keep-gain 0.50 is above")
            self.refused(hocket("bench", "calibrate", "-dp", "1"), 2, "--data-parallel-size 2 or more")
            self.refused(hocket(*run, "--cost-table", f"{folder}/none.json"), 3, "none.json: cannot be read")


unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
