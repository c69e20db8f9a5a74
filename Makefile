# The two commands a new user needs are `make serve` and `make test`; `make help` lists the rest.
MODEL ?= models/tiny-moe-fp8
ARGS ?=
JOBS ?= $(shell nproc)
HOCKET = build/release/hocket

.PHONY: help serve build test test-all bench asan tsan clang fuzz lint clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: build  ## install, build and serve MODEL at http://127.0.0.1:8000: 2 ranks, expert parallel, DBO on
	$(HOCKET) serve $(MODEL) --data-parallel-size 2 --enable-expert-parallel --enable-dbo $(ARGS)

build:  ## install what is missing and build build/release/hocket
	tools/install_deps.sh build
	cmake --preset release -DHOCKET_TESTS=OFF >build.log 2>&1 || { cat build.log; exit 1; }
	@rm -f build.log
	cmake --build build/release -j $(JOBS) --target hocket

test:  ## install, build everything and run the tests that CI runs
	tools/install_deps.sh test
	cmake --preset release -DHOCKET_TESTS=ON >build.log 2>&1 || { cat build.log; exit 1; }
	@rm -f build.log
	cmake --build build/release -j $(JOBS)
	tools/lint.sh
	ctest --test-dir build/release --output-on-failure -LE 'long|gpu' -j $(JOBS)

test-all: test  ## also the long tests: the full equality matrix, mutations
	ctest --test-dir build/release --output-on-failure -L long

bench:  ## build and run the benchmarks
	tools/install_deps.sh test
	cmake --preset bench && cmake --build build/bench -j $(JOBS)
	bench/run.sh build/bench

asan:  ## unit and interleaving tests under AddressSanitizer and UBSan
	tools/install_deps.sh test
	cmake --preset asan && cmake --build build/asan -j $(JOBS)
	ASAN_OPTIONS=detect_stack_use_after_return=1 ctest --test-dir build/asan --output-on-failure -L 'unit|interleave'

tsan:  ## unit and interleaving tests under ThreadSanitizer
	tools/install_deps.sh test
	cmake --preset tsan && cmake --build build/tsan -j $(JOBS)
	TSAN_OPTIONS=halt_on_error=1 ctest --test-dir build/tsan --output-on-failure -L 'unit|interleave'

clang:  ## build with clang and run the unit tests
	tools/install_deps.sh lint
	cmake --preset clang && cmake --build build/clang -j $(JOBS)
	ctest --test-dir build/clang --output-on-failure -L 'unit|interleave'

fuzz:  ## build the fuzz targets and run each for FUZZ_SECONDS (60)
	tools/install_deps.sh lint
	cmake --preset fuzz && cmake --build build/fuzz -j $(JOBS)
	fuzz/run.sh build/fuzz $${FUZZ_SECONDS:-60}

lint:  ## sizes, layers, coroutine shapes
	tools/lint.sh

clean:  ## remove build/
	rm -rf build
