#!/usr/bin/env python3
"""transformers on the same model, threads and lengths as `hocket bench throughput`, best of float32 and bfloat16.

usage: transformers_bench.py MODEL_FOLDER THREADS
"""
import sys
import time

import torch
from transformers import AutoModelForCausalLM

MODEL, THREADS = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(THREADS)
torch.manual_seed(0)


def timed(work, repeats):
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def measure(dtype):
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=dtype).eval()
    rates = {}
    with torch.inference_mode():
        prompt = torch.randint(0, 760, (1, 1024))
        model(prompt)
        rates["prefill, 1,024 tokens"] = 1024 / timed(lambda: model(prompt, logits_to_keep=1), 5)
        for batch in (1, 8, 32):
            ids = torch.randint(0, 760, (batch, 16))
            options = dict(max_new_tokens=64, min_new_tokens=64, do_sample=False, attention_mask=torch.ones_like(ids))
            model.generate(ids, **options)
            rates[f"decode, batch {batch}"] = batch * 64 / timed(lambda: model.generate(ids, **options), 2)
    return rates


results = {name: measure(dtype) for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16))}
for row in results["float32"]:
    print(f"{row:24}" + "".join(f"{name} {rates[row]:10.1f} tok/s   " for name, rates in results.items()))
