#!/usr/bin/env python3
"""A file as a C++ source: embed_file.py --out OUT --header HEADER --function NAMESPACE::NAME FILE"""
import argparse
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
parser.add_argument("--header", required=True)
parser.add_argument("--function", required=True)
parser.add_argument("file", type=Path)
arguments = parser.parse_args()

data = arguments.file.read_bytes()
lines = [",".join(str(byte) for byte in data[i : i + 32]) for i in range(0, len(data), 32)]
bytes_text = ",\n".join(lines)
arguments.out.write_text(
    f"""#include "{arguments.header}"

static const unsigned char kBytes[] = {{
{bytes_text}}};

std::span<const std::byte> {arguments.function}() {{ return std::as_bytes(std::span(kBytes)); }}
"""
)
