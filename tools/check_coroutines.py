#!/usr/bin/env python3
"""Rejects the co_await shapes that g++ 12.2 compiles wrongly (docs/traps.md).

Usage: check_coroutines.py FILES...     prints file:line: why for each, exits 1 if there are any
       check_coroutines.py --self-test  runs the patterns over known bad and good code
"""
import re
import sys

BAD = [
    (r"co_await[^;]*\[[^\]\n]+\]\s*(\(|\{|mutable)", "capturing lambda inside a co_await expression"),
    (r"co_await\s*\[", "immediately invoked lambda coroutine"),
    (r"(&&|\|\|)[^;\n]*co_await|co_await[^;\n]*(&&|\|\|)", "co_await beside && or ||"),
    (r"\?[^;\n]*co_await|co_await[^;\n]*\?", "co_await in a conditional expression"),
    (r"\{[^{};]*co_await[^;]*\}\s*;", "co_await inside braces that build an object"),
    (r"co_await\s+[\w:]+\s*\{", "brace-built awaiter"),
]
# Text that is no code: comments, string literals (kept empty), character literals.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def code_of(text):
    """The text without comments and literals; lines keep their numbers."""
    return NO_CODE.sub(lambda match: "\n" * match[0].count("\n"), text)


def findings(text):
    code = code_of(text)
    for pattern, why in BAD:
        for match in re.finditer(pattern, code):
            yield code.count("\n", 0, match.start()) + 1, why


SELF_TEST_BAD = """
Task a() { co_await f([t] { use(t); }); }
Task b() { co_await [t]() -> Task { co_return; }(); }
Task b2() { co_await []() -> Task { co_return; }(); }
Task c() { co_await Awaiter{T(9)}; }
Task d() { Agg x{T(1), co_await f(), T(3)}; }
Task e() { bool ok = co_await a() && done; }
Task e2() { bool ok = done || co_await a(); }
Task f() { for (int i : co_await x ? a : b) use(i); }
Task f2() { int i = flag ? co_await x : 0; }
Task g() { int i = 10'000; co_await Awaiter{i, 'x'}; }
"""
SELF_TEST_GOOD = """
Task a(Ubatch& ub) { Exchange out(ub, t); co_await out; }
Task b() { for (auto& layer : layers_) { Task t = layer->forward(ub); co_await t; } }
Task c() { co_await task; if (a && b) use(a ? 1 : 2); }
// co_await Awaiter{T(9)};
/* co_await a() &&
   b; */
const char* text = "co_await Awaiter{1};";
char quote = '"'; Task d() { co_await t; }  // "
Task e() { use([t] { go(t); }); co_await out; }
"""


def self_test():
    failures = 0
    for line in SELF_TEST_BAD.strip().splitlines():
        if not list(findings(line)):
            print(f"not found: {line}")
            failures += 1
    for number, why in findings(SELF_TEST_GOOD):
        print(f"wrongly found, line {number}: {why}")
        failures += 1
    if {number for number, _ in findings("int a;\n/* x\n */\nTask f() { co_await A{1}; }\n")} != {4}:
        print("wrong line number behind a comment")
        failures += 1
    print("check_coroutines: self-test", "failed" if failures else "passed")
    return failures


def check(paths):
    bad = 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for number, why in findings(file.read()):
                print(f"{path}:{number}: {why}")
                bad += 1
    return bad


if __name__ == "__main__":
    sys.exit((self_test() if sys.argv[1:] == ["--self-test"] else check(sys.argv[1:])) > 0)
