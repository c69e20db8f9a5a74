#!/usr/bin/env python3
"""Output is a promise: the same digest of all generated ids for every configuration.

usage: equality_matrix.py HOCKET MODEL DATA small|full
small: one factor at a time on few problems (part of `make test`). full: the whole cross product, and one factor at a time
on 256 problems with the accuracy gate.
"""
import itertools
import json
import re
import subprocess
import sys
import time

HOCKET, MODEL, DATA, SCALE = sys.argv[1:5]
BASE = {"dp": 2, "ubatches": 2, "dbo": "on", "backend": "auto", "batched": 2048, "prefix": "on", "threads": 2}
FACTORS = {
    "dp": [1, 2, 4],
    "ubatches": [1, 2, 3, 4],
    "dbo": ["on", "off"],
    "backend": ["auto", "high_throughput", "low_latency", "allgather"],
    "batched": [64, 2048, 4096],
    "prefix": ["on", "off"],
    "threads": [1, 2],
}


def arguments(config, limit):
    args = [HOCKET, "eval", MODEL, "--problems", f"{DATA}/problems_test.jsonl", "--fewshot", f"{DATA}/problems_fewshot.jsonl",
            "--num-fewshot", "5", "--limit", str(limit), "--data-parallel-size", str(config["dp"]),
            "--all2all-backend", config["backend"], "--max-num-batched-tokens", str(config["batched"]),
            "--cpu-threads", str(config["threads"] * config["dp"])]
    if config["dp"] > 1:
        args.append("--enable-expert-parallel")
        if config["dbo"] == "off" or config["ubatches"] == 1:
            args.append("--no-enable-dbo")
        else:
            # thresholds of 1, so that decode steps are cut as well as prefill steps
            args += ["--enable-dbo", "--ubatch-size", str(config["ubatches"]), "--dbo-decode-token-threshold", "1",
                     "--dbo-prefill-token-threshold", "1"]
    if config["prefix"] == "off":
        args.append("--no-enable-prefix-caching")
    return args


def run(config, limit):
    began = time.monotonic()
    done = subprocess.run(arguments(config, limit), capture_output=True, text=True, timeout=900, check=False)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    match = re.fullmatch(r"exact_match strict=(\S+) flexible=(\S+) n=(\d+) token_ids_sha256=([0-9a-f]{64})", last)
    if done.returncode != 0 or not match:
        print(f"FAILED {config}: exit {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-1500:]}")
        return None
    print(f"{match[4][:12]} strict={match[1]} {time.monotonic() - began:6.1f} s {json.dumps(config)}", flush=True)
    return match[4], float(match[1]), int(match[3])


def one_at_a_time():
    yield dict(BASE)
    for name, values in FACTORS.items():
        for value in values:
            if value != BASE[name]:
                yield {**BASE, name: value}


def cross():
    for values in itertools.product(*FACTORS.values()):
        config = dict(zip(FACTORS, values))
        if config["dp"] == 1 and (config["dbo"] == "on" or config["ubatches"] > 1 or config["backend"] == "auto"):
            continue  # one rank has nothing to overlap
        if (config["dbo"] == "off") != (config["ubatches"] == 1) or config["batched"] == 2048:
            continue
        yield config


def check(configs, limit, floor):
    digests = {}
    for config in configs:
        result = run(config, limit)
        if result is None:
            return False
        digests.setdefault(result[0], []).append(config)
        if result[1] < floor or result[2] != limit:
            print(f"strict {result[1]} on {result[2]} problems, expected at least {floor} on {limit}")
            return False
    if len(digests) != 1:
        print(f"{len(digests)} different digests:")
        for digest, members in digests.items():
            print(digest, *members, sep="\n  ")
        return False
    print(f"{sum(map(len, digests.values()))} configurations, one digest")
    return True


good = check(one_at_a_time(), 256 if SCALE == "full" else 12, 0.99 if SCALE == "full" else 0.9)
if good and SCALE == "full":
    good = check(cross(), 24, 0.9)
sys.exit(not good)
