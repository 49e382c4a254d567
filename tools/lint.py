#!/usr/bin/env python3
"""./rlx lint: runs clang-tidy on the sources of a build.

The build's compiler is clang, so clang-tidy reads its precompiled headers. Without names, a source is looked at
only if its object is newer than the last look that found nothing (ninja makes a new object when an included header
changes), or if .clang-tidy is.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def sources_of(build):
    """Maps the sources of the repository to their objects."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = pathlib.Path(entry["file"])
        if source.is_relative_to(ROOT) and not source.is_relative_to(build):
            found[source] = build / entry["output"]
    return found


def is_fresh(stamp, *others):
    return stamp.exists() and all(stamp.stat().st_mtime > other.stat().st_mtime for other in others)


def complaints(build, source, stamp):
    """What clang-tidy says, without its count of what it does not say; leaves a stamp if that is nothing."""
    command = ["clang-tidy", "-p", str(build), "--quiet", str(source)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
        return ""
    return re.sub(r"^\d+ warnings?.* generated\.\n", "", done.stdout, flags=re.MULTILINE) or f"{source}: failed\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("sources", type=pathlib.Path, nargs="*")
    args = parser.parse_args()

    objects = sources_of(args.build)
    stamps = {source: args.build / "lint" / source.relative_to(ROOT) for source in objects}
    if args.sources:
        wanted = [source.resolve() for source in args.sources]
        if unknown := [str(source) for source in wanted if source not in objects]:
            sys.exit(f"rlx: lint takes sources of the build, which {', '.join(unknown)} is not")
    else:
        wanted = [s for s in objects if not is_fresh(stamps[s], objects[s], ROOT / ".clang-tidy")]

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for text in pool.map(lambda source: complaints(args.build, source, stamps[source]), wanted):
            failed += text != ""
            sys.stdout.write(text)
            sys.stdout.flush()
    if failed:
        sys.exit(f"rlx: clang-tidy found something in {failed} of {len(wanted)} sources")


if __name__ == "__main__":
    main()
