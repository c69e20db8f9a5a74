#!/usr/bin/env python3
"""Who may include whom. The link table in CMakeLists.txt says the same; this names the offending line."""
import pathlib
import re
import sys

BELOW = {
    "base": [],
    "telemetry": ["base"],
    "quant": ["base"],
    "device": ["base", "telemetry", "quant"],
    "kernels": ["base", "quant"],
    "ops": ["base", "device", "quant", "kernels"],
    "dbo": ["base", "device"],
    "comm": ["base", "telemetry", "device", "quant", "ops", "dbo"],
    "kv": ["base", "device"],
    "model": ["base", "device", "quant", "ops", "dbo", "comm", "kv"],
    "sched": ["base", "kv", "dbo"],
    "text": ["base"],
    "engine": ["base", "telemetry", "device", "quant", "ops", "dbo", "comm", "kv", "model", "sched", "text"],
    "sim": ["base", "telemetry", "device", "kv", "dbo", "sched"],
    "server": ["base", "telemetry", "sched", "text", "engine"],
    "cli": ["base", "telemetry", "device", "dbo", "comm", "model", "sched", "text", "engine", "sim", "server"],
}

bad = 0
for path in sorted(pathlib.Path("src").rglob("*")):
    if path.suffix not in {".h", ".cc", ".inl"}:
        continue
    room = path.parts[1]
    test = path.stem.endswith("_test")  # a test may also drive its room through real devices and transports
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'#include "([a-z_0-9]+)/', line)
        if not match or match[1] == room or match[1] in BELOW[room]:
            continue
        if test and match[1] in {"device", "comm", "ops", "dbo"}:
            continue
        print(f"{path}:{number}: {room} must not include {match[1]}")
        bad += 1
sys.exit(bad > 0)
