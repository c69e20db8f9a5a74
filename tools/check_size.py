#!/usr/bin/env python3
"""Files of at most 500 lines: longer ones are not understood in one sitting."""
import pathlib
import sys

LIMIT = 500
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".inl", ".py", ".sh"}
ROOTS = ("src", "test", "bench", "fuzz", "tools")

bad = 0
for root in ROOTS:
    for path in sorted(pathlib.Path(root).rglob("*")):
        if path.suffix in SUFFIXES and path.is_file():
            lines = path.read_text().count("\n")
            if lines > LIMIT:
                print(f"{path}: {lines} lines, at most {LIMIT}")
                bad += 1
sys.exit(bad > 0)
