#!/usr/bin/env bash
# Runs every benchmark and the whole-model figures. usage: bench/run.sh BUILD_DIR
set -euo pipefail
build=$1
for target in "$build"/bench/*_bench; do
  echo "== $(basename "$target")"
  OMP_NUM_THREADS=2 "$target"
done
model=models/tiny-moe-fp8
for batch in 1 8 32; do
  echo "== decode, batch $batch"
  "$build/hocket" bench throughput "$model" --input-len 16 --output-len 256 --num-prompts "$batch" -dp 1
done
echo "== prefill, 1,024 tokens"
"$build/hocket" bench throughput "$model" --input-len 1024 --output-len 1 --num-prompts 32 -dp 1 --no-enable-prefix-caching
