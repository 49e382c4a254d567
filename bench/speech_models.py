#!/usr/bin/env python3
"""Moonshine's encoder for a recording of 11 seconds, for beside_ort --models: speech_models.py FOLDER

The network is the one that `./rlx demo speech` keeps in the cache folder.
"""
import os
import sys
from pathlib import Path

import onnx
from ocr_models import fix

SAMPLES, FRAMES = 176000, 457


def main(folder):
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("RLX_CACHE_DIR") or Path(cache) / "rlx")
    source = cache / "models/usefulsensors-moonshine-js-0.1.2/dist/model/tiny/float/encoder_model.onnx"
    if not source.is_file():
        sys.exit(f"there is no {source}; ./rlx demo speech downloads it")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = onnx.load(source)
    fix(model.graph.input[0], [1, SAMPLES])
    fix(model.graph.output[0], [1, FRAMES, 288])
    onnx.save(model, folder / "moonshine_encoder.onnx")


if __name__ == "__main__":
    main(sys.argv[1])
