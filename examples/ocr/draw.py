#!/usr/bin/env python3
"""Draws cafe.png, the picture that `rlx demo` reads: ./rlx shell python3 examples/ocr/draw.py examples/ocr/cafe.png

Needs python3-pil, fonts-dejavu-core and fonts-wqy-microhei.
"""
import sys

from PIL import Image, ImageDraw, ImageFilter, ImageFont

FONTS = "/usr/share/fonts/truetype"
SANS = f"{FONTS}/dejavu/DejaVuSans.ttf"
BOLD = f"{FONTS}/dejavu/DejaVuSans-Bold.ttf"
HAN = f"{FONTS}/wqy/wqy-microhei.ttc"
CHALK = (236, 234, 224)


def text(image, place, words, size, font=SANS, colour=CHALK, turn=0, ground=None):
    """Writes words with their centre at a place, turned counterclockwise by degrees, on a label if it has a ground."""
    face = ImageFont.truetype(font, size)
    left, top, right, bottom = face.getbbox(words)
    margin = size // 2
    label = Image.new("RGBA", (right - left + 2 * margin, bottom - top + 2 * margin), ground or (0, 0, 0, 0))
    ImageDraw.Draw(label).text((margin - left, margin - top), words, font=face, fill=colour)
    label = label.rotate(turn, expand=True, resample=Image.Resampling.BICUBIC)
    image.paste(label, (place[0] - label.width // 2, place[1] - label.height // 2), label)


def wall(width, height):
    """Dark wood, lighter towards the middle."""
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    for y in range(height):
        shade = 74 - (y * 7 // 96) % 9 - abs(y - height // 2) // 16
        draw.line((0, y, width, y), fill=(shade + 38, shade + 8, shade - 18))
    return image


def main(path):
    image = wall(800, 560)
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((48, 40, 540, 520), 12, fill=(38, 52, 46), outline=(176, 132, 84), width=10)
    text(image, (294, 92), "Harbour Coffee", 44, BOLD)
    draw.line((100, 132, 488, 132), fill=(150, 160, 150), width=2)
    menu = [("Espresso", "2.40"), ("Flat white", "3.10"), ("Hot chocolate", "3.60"), ("Lemon cake", "3.80")]
    for row, (name, price) in enumerate(menu):
        y = 178 + 58 * row
        face = ImageFont.truetype(SANS, 30)
        draw.text((96, y), name, font=face, fill=CHALK, anchor="lm")
        draw.text((492, y), price, font=face, fill=(244, 206, 120), anchor="rm")
    text(image, (294, 428), "Open daily 7:30 - 18:00", 26)
    text(image, (294, 476), "欢迎光临", 32, HAN)
    text(image, (654, 118), "FRESH TODAY", 24, BOLD, (60, 30, 20), 14, (246, 214, 98, 255))
    text(image, (728, 380), "RIVER STREET 27", 26, BOLD, (250, 250, 250), -90, (24, 70, 150, 255))
    text(image, (622, 400), "THIS WAY UP", 18, BOLD, (70, 60, 50), 180, (222, 206, 176, 255))
    image.filter(ImageFilter.GaussianBlur(0.4)).quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
