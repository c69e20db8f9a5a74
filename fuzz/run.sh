#!/usr/bin/env bash
# Runs every fuzz target for SECONDS. usage: fuzz/run.sh BUILD_DIR SECONDS
set -euo pipefail
build=$1
seconds=$2
for target in "$build"/fuzz/*_fuzz; do
  corpus="$build/corpus/$(basename "$target")"
  mkdir -p "$corpus"
  seeds="$(dirname "$0")/seeds/$(basename "$target")"
  echo "== $(basename "$target")"
  "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "$corpus" $([ -d "$seeds" ] && echo "$seeds") 2>&1 | tail -8
done
