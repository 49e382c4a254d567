#!/usr/bin/env python3
"""What a shared library of rlx shows: the functions of the public headers, and nothing of the inner layers.

exports.py LIBRARY SOURCE_FOLDER"""

import pathlib
import re
import subprocess
import sys

library, source = sys.argv[1], pathlib.Path(sys.argv[2])
listing = subprocess.run(["nm", "-DC", "--defined-only", library], capture_output=True, text=True, check=True).stdout
shown = {line.split(maxsplit=2)[2] for line in listing.splitlines()}
ours = {name for name in shown if name.startswith("rlx::")}

wrong = []
inner = re.compile(r"rlx::(kernels|ops|products|encodings|onnx::rules)::|nlohmann|protozero|wgpu::")
wrong += [f"shown, but not public: {name}" for name in sorted(shown) if inner.search(name)]
functions = {name.split("(")[0].split("[")[0] for name in ours}
for header in sorted((source / "include/rlx/ops").glob("*.h")):
    for name in re.findall(r"^(?:Value|[A-Z]\w+|std::vector<Value>) (\w+)\(", header.read_text(), re.MULTILINE):
        if f"rlx::{name}" not in functions:
            wrong.append(f"{header.name}: {name} is not shown")
for name in ("rlx::compile", "rlx::Graph::input", "rlx::Executable::run", "rlx::Device::open", "rlx::onnx::load"):
    if name not in functions:
        wrong.append(f"{name} is not shown")
if "typeinfo for rlx::Error" not in shown:
    wrong.append("rlx::Error cannot be caught outside")

print("\n".join(wrong) or f"{len(ours)} names of rlx are shown")
sys.exit(1 if wrong else 0)
