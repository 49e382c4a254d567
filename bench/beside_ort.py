#!/usr/bin/env python3
"""Measures rlx against ONNX Runtime's WebGPU provider: started by bench/beside_ort, inside the toolchain."""
import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
CHECKOUT = BENCH.parent

# The cases of `rlx bench` that ONNX has, and the error that the check of ONNX Runtime's outputs allows, as a fraction of
# their largest value. The element-wise case ends in the root of a difference that may be 0: an error of 1e-6 there
# becomes one of 1e-3.
CASES = {
    "add16": 1e-6,
    "matmul512": 1e-4,
    "matmul1024": 1e-4,
    "matvec": 1e-4,
    "small_m": 1e-4,
    "conv3x3": 1e-4,
    "conv1x1": 1e-4,
    "softmax": 1e-4,
    "elementwise": 3e-3,
    "bert-base": 1e-4,
}
MODEL_ERROR = 1e-4  # the same for a model of --models
SIDES = {"rlx": "rlx", "ort": "ORT", "ort_cpu": "ORT on CPU"}


class Failure(Exception):
    pass


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="bench/beside_ort",
        description="rlx and ONNX Runtime's WebGPU provider on the same work and the same device, in turns.",
    )
    parser.add_argument("cases", metavar="CASE", nargs="*", help=f"which cases; all without any: {', '.join(CASES)}")
    parser.add_argument(
        "--models",
        metavar="DIRECTORY",
        type=Path,
        help="measure its ONNX files instead, also in ONNX Runtime's CPU provider; a CASE is then a file's name "
        "without .onnx",
    )
    parser.add_argument(
        "--allowed",
        metavar="FRACTION",
        type=float,
        default=MODEL_ERROR,
        help=f"with --models: how much of the largest value ONNX Runtime's two providers may differ by "
        f"(default {MODEL_ERROR:g})",
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write the results, with those of each round")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side has its turn in a case (default 3)")
    parser.add_argument("--seconds", type=float, default=1, help="how long one turn measures (default 1)")
    parser.add_argument("--rlx", metavar="PROGRAM", type=Path, help="a built program, instead of this checkout's own")
    parser.add_argument("--packages", type=Path, required=True, help=argparse.SUPPRESS)  # from the launcher
    arguments = parser.parse_args()
    known = sorted(file.stem for file in arguments.models.glob("*.onnx")) if arguments.models else list(CASES)
    if not known:
        parser.error(f"--models: there is no ONNX file in {arguments.models}")
    for name in arguments.cases:
        if name not in known:
            parser.error(f"there is no case '{name}'; the cases are: {', '.join(known)}")
    arguments.cases = arguments.cases or known
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"--json: the directory {arguments.json.absolute().parent} does not exist")
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}; it must be at least 1")
    if not arguments.seconds > 0:
        parser.error(f"--seconds is {arguments.seconds}; it must be more than 0")
    return arguments


def note(text):
    print(f"beside_ort: {text}", file=sys.stderr, flush=True)


def json_of(command, what):
    """Runs a command that prints JSON."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    except OSError as error:
        raise Failure(f"{what} cannot be started: {error}") from error
    if done.returncode != 0:
        raise Failure(f"{what} failed with status {done.returncode}:\n{(done.stderr or done.stdout).strip()[-2000:]}")
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise Failure(f"{what} printed no JSON but:\n{done.stdout.strip()[-2000:]}") from error


# --- The two sides ---


class Rlx:
    def __init__(self, program, models, seconds):
        self.program, self.models, self.seconds = program.resolve() if program else build_rlx(), models, seconds
        devices = [self.program, "devices", "--backend", "vulkan", "--json"]
        self.adapter = one_adapter(json_of(devices, "rlx devices"))

    def measure(self, case):
        flags = ["--backend", "vulkan", "--seconds", self.seconds, "--json", "-"]
        work = self.models / f"{case}.onnx" if self.models else case
        result = json_of([self.program, "bench", work, *flags], f"rlx bench {work}")["cases"][0]
        return {key: result[key] for key in ("wall_ms", "cpu_ms", "runs", "dispatches")}


def build_rlx():
    """Has the launcher build this checkout, and returns the program."""
    if subprocess.run([CHECKOUT / "rlx", "--version"], stdout=subprocess.DEVNULL).returncode != 0:
        raise Failure("rlx cannot be built")
    return CHECKOUT / "build/release/rlx"


def one_adapter(adapters):
    """ONNX Runtime chooses an adapter itself and does not say which: there must be no choice."""
    if len(adapters) != 1:
        names = ", ".join(adapter["name"] for adapter in adapters) or "none"
        raise Failure(
            f"there must be exactly one Vulkan adapter, so that both sides use the same; there are {len(adapters)}: "
            f"{names}. VK_DRIVER_FILES=FILE.json leaves only the driver of that file."
        )
    return adapters[0]["name"]


class OnnxRuntime:
    def __init__(self, packages, models, seconds):
        self.packages, self.seconds = packages, seconds
        self.models = models or models_in(packages.parent)
        about = json.loads((packages / "node_modules/onnxruntime-node/package.json").read_text())
        self.version = about["version"]

    def call(self, case, *words):
        # The flag: the binding cannot read the Float16Array of newer versions of node.
        script = ["node", "--no-js-float16array", BENCH / "ort_case.mjs", self.packages]
        return json_of([*script, self.models / f"{case}.onnx", *words], f"ONNX Runtime ({words[0]} {case})")

    def measure(self, case, provider):
        return self.call(case, "measure", self.seconds, provider)

    def check(self, case, allowed):
        """The largest error of the WebGPU provider against the CPU provider, as a fraction of the largest value."""
        result = self.call(case, "check")
        if result["error"] is None:
            raise Failure(f"{case}: the outputs of ONNX Runtime's WebGPU provider are not all finite")
        error = result["error"] / result["largest"]
        if error > allowed:
            raise Failure(
                f"{case}: ONNX Runtime's WebGPU provider differs from its CPU provider by {error:.2g} of the largest "
                f"value; {allowed:.2g} is allowed"
            )
        return error


def models_in(cache):
    """The directory with the models that the current ort_models.py makes; those of other versions are deleted."""
    generator = BENCH / "ort_models.py"
    directory = cache / f"models-{hashlib.sha256(generator.read_bytes()).hexdigest()[:12]}"
    if directory.is_dir():
        return directory
    for old in cache.glob("models-*"):
        shutil.rmtree(old)
    note(f"making the models (about 500 MiB) in {directory}")
    partial = cache / f"models-partial-{os.getpid()}"
    partial.mkdir()
    if subprocess.run([sys.executable, generator, partial]).returncode != 0:
        raise Failure(f"{generator} cannot make the models")
    partial.rename(directory)
    return directory


# --- Taking turns ---


def middle(rounds):
    """The median of the rounds, separately for each time."""
    times = {key: statistics.median(r[key] for r in rounds) for key in ("wall_ms", "cpu_ms")}
    return times | {"rounds": rounds}


def run_case(case, rlx, ort, rounds, model_error):
    allowed = model_error if rlx.models else CASES[case]
    error = ort.check(case, allowed)
    sides = {"rlx": lambda: rlx.measure(case), "ort": lambda: ort.measure(case, "webgpu")}
    if rlx.models:
        sides["ort_cpu"] = lambda: ort.measure(case, "cpu")
    turns = {side: [] for side in sides}
    for number in range(rounds):
        note(f"{case}, round {number + 1} of {rounds}")
        for side, measure in sides.items():
            turns[side].append(measure())
    result = {"name": case} | {side: middle(of_side) for side, of_side in turns.items()}
    result["cpu_ratio"] = result["ort"]["cpu_ms"] / result["rlx"]["cpu_ms"]
    return result | {"ort_error": error, "ort_error_allowed": allowed}


def ms_text(ms):
    return f"{ms:.3f}" if ms < 1 else f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"


def print_table(results):
    sides = [side for side in SIDES if side in results[0]]
    times = [f"{SIDES[side]} {time} ms" for side in sides for time in ("wall", "CPU")]
    rows = [["case", *times, "dispatches", "ORT CPU / rlx CPU"]]
    for r in results:
        times = [ms_text(r[side][key]) for side in sides for key in ("wall_ms", "cpu_ms")]
        dispatches = str(r["rlx"]["rounds"][0]["dispatches"])
        rows.append([r["name"], *times, dispatches, f"{r['cpu_ratio']:.2f}"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  ".join([row[0].ljust(widths[0]), *cells]))


def print_spread(results):
    """Says where the rounds of a case disagree, so that nobody trusts its ratio too much."""
    for r in results:
        times = {side: sorted(turn["cpu_ms"] for turn in r[side]["rounds"]) for side in ("rlx", "ort")}
        if all(t[-1] <= 1.25 * t[0] for t in times.values()):
            continue
        rlx, ort = (f"{ms_text(t[0])} to {ms_text(t[-1])} ms" for t in times.values())
        ratio = times["ort"][0] / times["rlx"][0]
        print(f"{r['name']}: rounds differ, rlx CPU {rlx}, ORT CPU {ort}; ratio of the lowest {ratio:.2f}")


def main():
    arguments = read_arguments()
    rlx = Rlx(arguments.rlx, arguments.models, arguments.seconds)
    ort = OnnxRuntime(arguments.packages, arguments.models, arguments.seconds)
    results = [run_case(case, rlx, ort, arguments.rounds, arguments.allowed) for case in arguments.cases]
    print(f"{rlx.adapter}; ONNX Runtime {ort.version}, WebGPU provider")
    print(f"warm runs, inputs uploaded and outputs read back in each; median of rounds: {arguments.rounds}\n")
    print_table(results)
    print()
    print_spread(results)
    mixed = [r["name"] for r in results if not r["ort"]["rounds"][0]["all_webgpu"]]
    if mixed:
        print(f"with nodes that ONNX Runtime's WebGPU provider leaves to the CPU: {', '.join(mixed)}")
    worst = max(results, key=lambda r: r["ort_error"] / r["ort_error_allowed"])
    limits = f"{worst['ort_error']:.1e} of the largest value, {worst['ort_error_allowed']:.0e} is allowed"
    print("ONNX Runtime's WebGPU provider agrees with its CPU provider in these cases; nearest to its limit is")
    print(f"{worst['name']} with an error of {limits}")
    if arguments.json:
        report = {"adapter": rlx.adapter, "onnxruntime": ort.version, "cases": results}
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    try:
        main()
    except (Failure, OSError) as error:
        note(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
