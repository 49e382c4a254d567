#!/usr/bin/env python3
"""Compiles the C++ in the documents as it is printed: snippets.py COMPILER (in the source folder).

A snippet is an indented block with `rlx::` in it. Its statements become the body of a function, its includes go before
that; a snippet without any has those of the one before it. README's snippets stand for themselves. In the other documents
the text around a snippet says what its names are, and so does NAMES.
"""
import pathlib
import subprocess
import sys
import tempfile

NAMES = {
    "docs/cost.md": "rlx::Graph& graph",
    "docs/custom-ops.md": "rlx::Value x, std::string text, void (*reference)(rlx::CustomReference&)",
    "docs/encodings.md": "rlx::Graph& g, rlx::Executable& exe, std::span<const std::byte> bytes_of_the_file, "
    "std::shared_ptr<const void> owner",
    "docs/onnx.md": "rlx::Executable& exe, rlx::Tensor prompt, rlx::Tensor ones, rlx::Tensor next, "
    "rlx::Tensor more_ones, rlx::Tensor x, uint32_t step",
    "docs/sharing.md": "rlx::Graph& prompt_graph, rlx::Graph& step_graph, const rlx::Device& device, rlx::Executable& prompt, "
    "rlx::Executable& step, rlx::Executable& encoder, rlx::Executable& decoder, rlx::Tensor tokens, rlx::Tensor token, "
    "rlx::Tensor x",
    "docs/waiting.md": "rlx::Graph& graph, rlx::Device& device, rlx::Executable& exe, rlx::Tensor x, void (*draw_a_frame)(), "
    "void (*show)(const rlx::NamedTensors&)",
    "docs/quantisation.md": "rlx::Graph& g, rlx::Value x",
    "docs/tuning.md": "rlx::Graph& graph, rlx::Device& device, rlx::NamedTensors inputs",
}
INCLUDES = ['#include <iostream>'] + [f'#include "rlx/{name}.h"' for name in ("custom_op", "ocr", "onnx", "rlx", "speech")]
OPTIONS = ["-std=c++23", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Iinclude"]
# What a snippet declares last, it need not use.
OPTIONS += ["-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Wno-unused-parameter"]


def snippets(path):
    """The blocks of the document that are C++, as (first line, lines)."""
    block, first, after_blank = [], 0, True
    for number, line in enumerate(path.read_text().splitlines() + ["end"], 1):
        if line.startswith("    ") and (block or after_blank):
            first = first if block else number
            block.append(line[4:])
        elif not line.strip() and block:
            block.append("")
        elif block:
            if any("rlx::" in text for text in block):
                yield first, block
            block = []
        after_blank = not line.strip()


def function(path, first, lines, names):
    """The snippet as a function; the compiler's messages name the document and its lines."""
    body = "".join("\n" if line.startswith("#include") else line + "\n" for line in lines)
    name = path.stem.replace("-", "_")
    return f'void {name}_{first}({names}) {{ {{\n#line {first} "{path}"\n{body}}} }}\n'


def sources():
    """Every text to be compiled, by what it is."""
    readme = pathlib.Path("README.md")
    includes = []
    count = 0
    for first, lines in snippets(readme):
        includes = [line for line in lines if line.startswith("#include")] or includes
        count += 1
        yield f"README.md:{first}", "\n".join(includes) + "\n" + function(readme, first, lines, "")
    assert count >= 3, f"README.md has {count} snippets of C++"
    functions = []
    for path in sorted(pathlib.Path("docs").glob("*.md")):
        names = NAMES.get(str(path), "")
        found = [function(path, first, lines, names) for first, lines in snippets(path)]
        assert found or not names, f"{path} has no snippets of C++, but names for them"
        functions += found
    yield f"{len(functions)} in docs", "\n".join(INCLUDES) + "\n" + "".join(functions)


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for what, text in sources():
            source = pathlib.Path(folder) / "snippet.cpp"
            source.write_text(text)
            result = subprocess.run([sys.argv[1], *OPTIONS, str(source)], capture_output=True, text=True, check=False)
            print(f"{what}: {'compiles' if result.returncode == 0 else 'does not compile'}")
            if result.returncode != 0:
                failures += 1
                print(result.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
