#!/usr/bin/env python3
"""Puts known faults into a copy of the sources, one at a time, and demands that the named test fails.

usage: run.py SOURCE_DIR SCRATCH_DIR [name]
Each row: (name, file, from, to, test target, GoogleTest filter). Overlap that is lost shows in virtual time only; a shared
buffer or a missing wait shows in seeded orders only. See docs/dbo.md.
"""
import filecmp
import pathlib
import shutil
import subprocess
import sys

MUTATIONS = [
    ("late_event", "src/dbo/exchange.h",
     "    transfer_.prepare(ub.compute);\n    transfer_.send(ub.comm, Ready(ub.compute));\n  }\n"
     "  void await_resume() { transfer_.receive(ub_.compute); }",
     "    transfer_.prepare(ub.compute);\n  }\n"
     "  void await_resume() {\n    transfer_.send(ub_.comm, Ready(ub_.compute));\n    transfer_.receive(ub_.compute);\n  }",
     "dbo_test", "Timeline.*"),
    ("no_suspension", "src/dbo/ubatch.h", "return ub_.overlap == Overlap::off;", "return true;", "dbo_test", "Timeline.*"),
    ("missing_ready_wait", "src/dbo/exchange.h", "    comm.wait(after.event);\n", "    (void)after;\n", "dbo_test",
     "Timeline.*:Interleaving.*"),
    ("missing_arrival_wait", "src/comm/round.cc", "  compute.wait(arrived(Direction::dispatch));\n", "", "comm_test",
     "*EveryOrderGivesTheSameBits*"),
    ("shared_slots", "src/comm/all2all.cc", "ub.index * per + ub.rounds++ % per", "ub.rounds++ % per", "comm_test",
     "*EveryOrderGivesTheSameBits*:*AnySequence*"),
    ("reversed_turns", "src/dbo/run.cc", "    for (const Pass& pass : passes) {\n      if (pass.task->done()) continue;",
     "    for (size_t i = passes.size(); i-- > 0;) {\n      const Pass& pass = passes[i];\n"
     "      if (pass.task->done()) continue;", "dbo_test", "Run.*:Interleaving.*:Timeline.*"),
    ("continuation_from_the_start", "src/engine/batch.cc", "const Span span{row.computed + part.first, &row, part.count};",
     "const Span span{row.computed, &row, part.count};", "engine_test", "BatchTest.*"),
    ("one_vetoes", "src/dbo/agree.cc", "decision.max_tokens = std::max(decision.max_tokens, rank.tokens)",
     "decision.max_tokens = std::min(decision.max_tokens, rank.tokens)", "dbo_test", "Decide.*:Fault.*"),
]


def build_and_test(tree, build, target, test_filter):
    subprocess.run(["cmake", "--build", build, "-j", "2", "--target", target], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([f"{build}/{target}", f"--gtest_filter={test_filter}"], capture_output=True, timeout=600,
                          check=False).returncode


def update(source, target):
    """Keeps the time stamp of an equal file: with the source's older one, the object of a mutation would look up to date."""
    if not pathlib.Path(target).exists() or not filecmp.cmp(source, target, shallow=False):
        shutil.copy(source, target)
    return target


def main():
    source, scratch = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    wanted = sys.argv[3:]
    tree, build = scratch / "tree", scratch / "build"
    tree.mkdir(parents=True, exist_ok=True)
    for name in ("src", "cmake", "test", "CMakeLists.txt", "CMakePresets.json"):
        if (source / name).is_dir():
            shutil.copytree(source / name, tree / name, dirs_exist_ok=True, copy_function=update,
                            ignore=shutil.ignore_patterns("*.safetensors"))
        else:
            update(source / name, tree / name)
    subprocess.run(["cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                    "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -w"], check=True, stdout=subprocess.DEVNULL)
    survivors, tried = 0, 0
    for name, file, old, new, target, test_filter in MUTATIONS:
        if wanted and name not in wanted:
            continue
        tried += 1
        path = tree / file
        original = path.read_text()
        if original.count(old) != 1:
            print(f"{name}: the text to change is not in {file} exactly once")
            survivors += 1
            continue
        if build_and_test(tree, build, target, test_filter) != 0:
            print(f"{name}: {target} fails without the mutation")
            survivors += 1
            continue
        path.write_text(original.replace(old, new))
        code = build_and_test(tree, build, target, test_filter)
        path.write_text(original)
        print(f"{name}: {'caught' if code else 'SURVIVED'} by {target} {test_filter}", flush=True)
        survivors += code == 0
    print(f"{tried} mutations, {survivors} survived")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
