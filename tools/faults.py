#!/usr/bin/env python3
"""./rlx test --faults [--narrow] [NAME...]: seeds the faults of tests/faults.toml, one at a time, and reports which
tests catch each. A fault that no test catches is a hole in the tests; the exit code is then 1.

For each fault: the one change is made, the test programs are built, all tests without a device and those that the
fault names run, and the change is undone. --narrow runs only the tests that the fault names, which is quicker.
--check only says whether every fault can be seeded.

The checkout is used in place, because a build of its own would take longer than all the rest. A file is put back
however the script ends: at its end, on Ctrl-C, or, where it was killed, by the next call (build/faults.json holds the
text until then). Files with changes that are not committed are refused.
"""

import argparse
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
JOURNAL = ROOT / "build/faults.json"
PROGRAMS = ("rlx_host_tests", "rlx_gpu_tests")
TIMEOUT_SECONDS = 1800


class Unusable(Exception):
    """A fault that cannot be seeded."""


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    file: str
    old: str  # occurs once in the file
    new: str
    tests: str  # a GoogleTest filter

    @property
    def path(self):
        return ROOT / self.file

    def text(self):
        """The file without the fault."""
        if not self.path.is_file():
            raise Unusable(f"there is no {self.file}")
        text = self.path.read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            raise Unusable(f"{self.file} has the text to replace {count} times instead of once: {self.old.strip()}")
        return text

    def check(self):
        self.text()
        if self.old == self.new:
            raise Unusable("it changes nothing")
        if has_changes(self.file):
            raise Unusable(f"{self.file} has changes that are not committed")


# --- The change ---


def has_changes(file):
    """Whether it differs from what git has; without git nobody knows."""
    if not shutil.which("git"):
        return False
    status = subprocess.run(["git", "-C", ROOT, "status", "--porcelain", "--", file], capture_output=True, text=True)
    return status.returncode == 0 and bool(status.stdout)


def put_back(file, old, new):
    """Undoes a change, unless somebody else has changed the file since. The new time of the file makes ninja build it."""
    path = ROOT / file
    if path.read_text(encoding="utf-8") == new:
        path.write_text(old, encoding="utf-8")
    else:
        print(f"rlx: {file} was edited while it held a fault; look at `git diff {file}`", file=sys.stderr)
    JOURNAL.unlink()


def recover():
    """Undoes what a call left behind that was killed."""
    if JOURNAL.exists():
        change = json.loads(JOURNAL.read_text(encoding="utf-8"))
        print(f"rlx: an earlier call was killed; putting {change['file']} back", file=sys.stderr)
        put_back(**change)


@contextlib.contextmanager
def seeded(fault):
    old = fault.text()
    change = {"file": fault.file, "old": old, "new": old.replace(fault.old, fault.new)}
    JOURNAL.write_text(json.dumps(change), encoding="utf-8")
    try:
        fault.path.write_text(change["new"], encoding="utf-8")
        yield
    finally:
        before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        put_back(**change)
        for number, handler in before.items():
            signal.signal(number, handler)


# --- Tests ---


def build(programs):
    done = subprocess.run(["ninja", "-C", str(BUILD), *programs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if "error" in line or line.startswith("FAILED")]
        raise Unusable("it does not build: " + (lines or done.stdout.splitlines())[-1])


def environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("GTEST_")}


def tests_in(program, test_filter):
    """How many tests of the program the filter names."""
    command = [str(BUILD / "tests" / program), f"--gtest_filter={test_filter}", "--gtest_list_tests"]
    listed = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    return sum(line.startswith("  ") for line in listed.stdout.splitlines())


def failures(program, test_filter):
    """The tests that fail; one that ends the program or does not end says so."""
    command = [str(BUILD / "tests" / program), f"--gtest_filter={test_filter}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          errors="replace", env=environment()) as child:
        try:
            output, _ = child.communicate(timeout=TIMEOUT_SECONDS)
            ending = "ends the program"
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            ending = "does not end"
        except BaseException:
            child.kill()
            raise
    found, running = set(), None
    for line in output.splitlines():
        if line.startswith("[ RUN      ] "):
            running = line.split("] ", 1)[1]
        elif line.startswith("[  FAILED  ] ") and line.endswith(" ms)"):
            found.add(line.split("] ", 1)[1].split(" (")[0].split(",")[0])
            running = None
        elif line.startswith(("[       OK ] ", "[  SKIPPED ] ")):
            running = None
    if child.returncode not in (0, 1):
        found.add(f"{running or program} ({ending})")
    return found


def plan_of(fault, narrow):
    """The programs that have tests for the fault, each with a filter."""
    named = {program: fault.tests for program in PROGRAMS if tests_in(program, fault.tests)}
    if not named:
        raise Unusable(f"no test has a name like '{fault.tests}'")
    return named if narrow else {PROGRAMS[0]: "*"} | {p: f for p, f in named.items() if p != PROGRAMS[0]}


def failures_without(plans):
    """What fails without any fault, which says nothing of one."""
    found = set()
    for program in PROGRAMS:
        if filters := {plan[program] for plan in plans if program in plan}:
            found |= failures(program, ":".join(sorted(filters)))
    for test in sorted(found):
        print(f"rlx: {test} fails without any fault", file=sys.stderr)
    return found


def catchers(fault, plan, usual):
    with seeded(fault):
        build(plan)
        return [test for program, tests in plan.items() for test in sorted(failures(program, tests) - usual)]


def some(names):
    most = 3
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class Report:
    """What became of the faults, printed as it becomes known."""

    def __init__(self, faults):
        self.width = max(len(f.name) for f in faults)
        self.caught, self.survived, self.unusable = [], [], []

    def result(self, fault, found, seconds):
        (self.caught if found else self.survived).append(fault.name)
        result = f"caught by {some(found)}" if found else f"SURVIVES {fault.tests}"
        print(f"{fault.name:{self.width}}  {seconds:4.0f} s  {fault.file}: {result}", flush=True)

    def cannot(self, fault, why):
        self.unusable.append(fault.name)
        print(f"{fault.name:{self.width}}  cannot be seeded: {why}", flush=True)

    def summary(self):
        print(f"{len(self.caught)} caught, {len(self.survived)} survived, {len(self.unusable)} could not be seeded")
        if self.survived:
            print(f"no test catches: {', '.join(self.survived)}")


def usable(faults, report):
    good = []
    for fault in faults:
        try:
            fault.check()
            good.append(fault)
        except Unusable as why:
            report.cannot(fault, why)
    return good


def run(faults, narrow, report):
    plans = {}
    for fault in faults:
        try:
            plans[fault] = plan_of(fault, narrow)
        except Unusable as why:
            report.cannot(fault, why)
    usual = failures_without(plans.values())
    for fault, plan in plans.items():
        start = time.monotonic()
        try:
            found = catchers(fault, plan, usual)
            report.result(fault, found, time.monotonic() - start)
        except Unusable as why:
            report.cannot(fault, why)
    build(PROGRAMS)  # without faults


def read_faults(names):
    table = tomllib.loads((ROOT / "tests/faults.toml").read_text(encoding="utf-8"))["fault"]
    faults = {entry["name"]: Fault(**entry) for entry in table}
    if len(faults) != len(table):
        sys.exit("rlx: two faults of tests/faults.toml have the same name")
    if unknown := [name for name in names if name not in faults]:
        print(f"rlx: there is no fault named {', '.join(unknown)}; there are: {', '.join(faults)}", file=sys.stderr)
        sys.exit(2)
    return [faults[name] for name in names or faults]


def main():
    parser = argparse.ArgumentParser(prog="./rlx test --faults", description="Seeds faults and reports which tests catch them.")
    parser.add_argument("--narrow", action="store_true", help="run only the tests that a fault names")
    parser.add_argument("--check", action="store_true", help="only say whether every fault can be seeded")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a fault of tests/faults.toml; all, if none is given")
    args = parser.parse_args()
    faults = read_faults(args.names)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / ".lock", "w", encoding="utf-8") as lock:  # ./rlx waits for it before it builds
        fcntl.flock(lock, fcntl.LOCK_EX)
        recover()
        report = Report(faults)
        good = usable(faults, report)
        if not args.check:
            run(good, args.narrow, report)
            report.summary()
    sys.exit(1 if report.survived or report.unusable else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
