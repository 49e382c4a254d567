#!/usr/bin/env python3
"""Sums up test runs: prints what failed and why, what was skipped by its reason, then the line `N passed, M failed`.

Usage: test_report.py BUILD_DIR...

A build directory holds test-results/ctest.xml (JUnit, written by ctest) and, for every ctest test that is a
GoogleTest program, test-results/<name>.json. GoogleTest writes that file when the program ends, so a program
without one crashed: it counts as one failure, besides the cases that its output says passed. Any other ctest
test counts as one case.

A test that needs a package or a network which is not there is skipped with a reason that begins with `missing:`. In continuous
integration (CI=true) that is a failure: what .ci/run compares with is installed by ./rlx.
"""

import collections
import dataclasses
import json
import os
import pathlib
import sys
import xml.etree.ElementTree as xml

TAIL_LINES = 60  # enough for a sanitizer's report with its stack
MISSING = "missing:"
IN_CI = os.environ.get("CI") == "true"


@dataclasses.dataclass
class Totals:
    passed: int = 0
    skipped: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # by reason
    pipelines: int = 0  # that the tests' shared devices made
    failures: list = dataclasses.field(default_factory=list)  # (name, explanation)

    def add(self, other):
        self.passed += other.passed
        self.skipped.update(other.skipped)
        self.pipelines += other.pipelines
        self.failures += other.failures

    def line(self):
        text = f"{self.passed} passed, {len(self.failures)} failed"
        return text + (f", {self.skipped.total()} skipped" if self.skipped else "")

    def skip(self, name, reason):
        reason = " ".join(reason.split()) or "no reason is given"
        if IN_CI and reason.startswith(MISSING):
            self.failures.append((name, f"skipped in CI, {reason}"))
        else:
            self.skipped[reason] += 1


def tail(output):
    return "\n".join(output.splitlines()[-TAIL_LINES:])


def count_cases(report, prefix):
    totals = Totals(pipelines=int(report.get("pipelines", 0)))
    for suite in report.get("testsuites", []):
        for case in suite.get("testsuite", []):
            failures = [failure["failure"] for failure in case.get("failures", [])]
            if case.get("status") == "NOTRUN":
                continue
            name = f"{prefix}{case['classname']}.{case['name']}"
            if failures:
                totals.failures.append((name, "\n".join(failures)))
            elif case.get("result") == "SKIPPED":
                # The first line of a message is its place in the source.
                totals.skip(name, "".join(part["message"].partition("\n")[2] for part in case.get("skipped", [])))
            else:
                totals.passed += 1
    return totals


def count_crash(program, output, prefix):
    totals = Totals()
    running = None
    for line in output.splitlines():
        if line.startswith("[ RUN      ] "):
            running = line.split("] ", 1)[1]
        elif line.startswith("[       OK ] "):
            totals.passed += 1
        elif line.startswith("[  SKIPPED ] ") and line.endswith(")"):
            totals.skip(prefix + line.split("] ", 1)[1], "in a program that did not finish")
        elif line.startswith("[  FAILED  ] ") and line.endswith(" ms)"):
            totals.failures.append((prefix + line.split("] ", 1)[1].split(" (")[0].split(",")[0], ""))
    where = f" in {running}" if running else ""
    totals.failures.append((f"{prefix}{program}: the program did not finish{where}", tail(output)))
    return totals


def count_test(test, results, prefix):
    """Counts one ctest test, a testcase element of ctest's report."""
    name = test.get("name")
    output = test.findtext("system-out") or ""
    succeeded = test.get("status") == "run"
    report = results / f"{name}.json"
    if report.exists():
        totals = count_cases(json.loads(report.read_text(encoding="utf-8")), prefix)
        if not succeeded and not totals.failures:  # a leak reported at exit, for instance
            totals.failures.append((f"{prefix}{name}: the program failed after its tests", tail(output)))
        return totals
    if "[==========] Running" in output:
        return count_crash(name, output, prefix)
    if test.get("status") in ("disabled", "notrun") and test.find("skipped") is not None:
        reasons = [line for line in output.splitlines() if line.startswith(MISSING)]
        totals = Totals()
        totals.skip(prefix + name, reasons[0] if reasons else tail(output))
        return totals
    return Totals(passed=1) if succeeded else Totals(failures=[(prefix + name, tail(output))])


def count_build(directory):
    prefix = f"{directory.name}: "
    results = directory / "test-results"
    report = results / "ctest.xml"
    if not report.exists():
        return Totals(failures=[(f"{prefix}ctest did not run", "")])
    totals = Totals()
    for test in xml.parse(report).getroot().iter("testcase"):
        totals.add(count_test(test, results, prefix))
    return totals


def main():
    totals = Totals()
    for directory in sys.argv[1:]:
        totals.add(count_build(pathlib.Path(directory)))
    for name, explanation in totals.failures:
        print(f"\nFAILED {name}")
        if explanation:
            print(explanation.rstrip())
    if totals.failures:
        print("\nFailed:")
        for name, _ in totals.failures:
            print(f"  {name}")
    nothing_ran = not (totals.passed or totals.skipped or totals.failures)
    if nothing_ran:
        print("No test matches.")
    if totals.skipped:
        print("\nSkipped:")
        for reason, count in totals.skipped.most_common():
            print(f"  {count:4} {reason}")
    if totals.pipelines:
        print(f"{totals.pipelines} pipelines compiled")
    print(totals.line())
    sys.exit(1 if totals.failures or nothing_ran else 0)


if __name__ == "__main__":
    main()
