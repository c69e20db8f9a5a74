#!/usr/bin/env bash
# Checks that need no compiler: file sizes, layers, coroutine shapes. Part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
status=0
python3 tools/check_size.py || status=1
python3 tools/check_layers.py || status=1
python3 tools/check_coroutines.py $(find src -name '*.h' -o -name '*.cc') || status=1
exit $status
