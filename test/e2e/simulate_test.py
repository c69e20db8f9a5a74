#!/usr/bin/env python3
"""Benchmarks on virtual hardware, as a user runs them. usage: simulate_test.py HOCKET MODEL"""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HOCKET, MODEL = sys.argv[1:3]
SEED = ["simulate", "--model", "qwen3-30b-a3b", "--hardware", "b200", "--num-gpus", "4", "--all2all-backend",
        "high_throughput", "--input-len", "8192", "--output-len", "1", "--max-concurrency", "64", "--num-prompts", "640"]


def hocket(*args):
    return subprocess.run([HOCKET, *args], capture_output=True, text=True, timeout=120, check=False)


class SimulateTest(unittest.TestCase):
    def simulate(self, *more):
        done = hocket(*SEED, "--json", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_the_published_workload(self):
        began = time.monotonic()
        first = hocket(*SEED)
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(hocket(*SEED).stdout, first.stdout, "byte for byte")
        for line in ("Total Token throughput (tok/s):", "Mean TTFT (ms):", "bound    (C+X)/max(C,X) =", "overlap efficiency",
                     "exposed ", "advice for prefill steps", "ubatches ", "comm SMs ", "threshold  --dbo-prefill-token-threshold"):
            self.assertIn(line, first.stdout)

    def test_the_fault_loses_the_overlap(self):
        good, late, off = self.simulate(), self.simulate("--event-capture", "after-yield"), self.simulate("--no-enable-dbo")
        self.assertGreater(good["step"]["efficiency"], 0.9)
        self.assertLess(abs(late["step"]["efficiency"]), 0.01)
        self.assertLess(late["total_token_throughput"], 1.01 * off["total_token_throughput"])
        self.assertEqual(off["split_steps"], 0)

    def test_the_calibrated_figure_and_its_prediction(self):
        before = self.simulate("--schedule", "vllm", "--event-capture", "after-yield")
        after = self.simulate("--schedule", "vllm")
        self.assertAlmostEqual(before["total_token_throughput"] / 98525, 1, delta=0.001)
        self.assertAlmostEqual(after["total_token_throughput"] / 130018, 1, delta=0.1)

    def test_skewed_routing_costs(self):
        uniform, skewed = self.simulate(), self.simulate("--routing", "zipf:1")
        self.assertLess(skewed["total_token_throughput"], uniform["total_token_throughput"])
        self.assertGreater(skewed["step"]["imbalance"], 1.05)

    def test_a_trace_can_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "trace.json"))
            self.simulate("--trace", path)
            read = hocket("trace", path, "--json")
            self.assertEqual(read.returncode, 0, read.stderr)
            self.assertGreater(json.loads(read.stdout)["total"]["efficiency"], 0.9)

    def test_models_from_folders(self):
        done = hocket("simulate", MODEL, "--hardware", "cpu-net", "--num-gpus", "2", "--num-prompts", "4", "--input-len", "64",
                      "--output-len", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tiny-moe-fp8 (fp8) on 2 x cpu-net", done.stdout)

    def test_mistakes_come_all_at_once(self):
        done = hocket("simulate", "--model", "nothing", "--hardware", "b300")
        self.assertEqual(done.returncode, 2)
        self.assertIn("configuration error: model nothing", done.stderr)
        self.assertIn("configuration error: hardware b300", done.stderr)

    def test_tune_writes_a_file_that_the_engine_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder, "tuned.yaml"))
            done = hocket("tune", "--hardware", "h200", "--num-gpus", "4", "--input-len", "1024", "--output", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("break-even at", done.stdout)
            self.assertIn("dbo-prefill-token-threshold: ", pathlib.Path(path).read_text())
            used = hocket("generate", "--prompt", "a", "--max-tokens", "2", "--config", path)
            self.assertEqual(used.returncode, 0, used.stderr)


unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
