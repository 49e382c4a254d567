#!/usr/bin/env python3
"""Writes song.wav, three seconds that sound like a bird, for the picture examples/spectrogram.png:

python3 examples/make_song.py && rlx spectrogram song.wav -o examples/spectrogram.png --range 60
"""

import math
import struct
import wave

RATE = 16000
sound = [0.0] * (3 * RATE)


def note(start, duration, hertz):
    """`hertz` is a function from 0 to 1, the beginning and the end of the note."""
    cycles = 0
    for i in range(round(start * RATE), round((start + duration) * RATE)):
        part = (i / RATE - start) / duration
        cycles += hertz(part) / RATE
        for overtone, loudness in ((1, 0.4), (2, 0.14), (3, 0.048)):
            if hertz(part) * overtone < 7900:
                sound[i] += loudness * math.sin(math.pi * part) * math.sin(2 * math.pi * overtone * cycles)


note(0.05, 0.6, lambda p: 900 * 2 ** (1.6 * p))
note(0.75, 0.5, lambda p: 3200 - 540 * math.cos(6 * math.pi * p))
for k in range(6):
    note(1.35 + 0.11 * k, 0.085, lambda p: 2000 + 250 * k + 1400 * p)
note(2.05, 0.85, lambda p: 2600 * 2 ** (-1.4 * p) + 120 * math.sin(18 * math.pi * p))

with wave.open("song.wav", "wb") as file:
    file.setparams((1, 2, RATE, 0, "NONE", ""))
    file.writeframes(struct.pack(f"<{len(sound)}h", *(round(32767 * v) for v in sound)))
