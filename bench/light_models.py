#!/usr/bin/env python3
"""Gives ONNX's light image networks weights: light_models.py DIRECTORY, for rlx bench DIRECTORY/*.onnx --peer ort.

In Debian's libonnx-testdata each weight is a ConstantOfShape, one repeated number. rlx keeps such a value as one number
where its kernels allow, which real weights would not: here each becomes a tensor of seeded random numbers.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = Path("/usr/share/libonnx-testdata/data/light")
SEED = 1


def users_of(graph):
    users = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            users.setdefault(name, []).append((node, position))
    return users


def is_factor(name, users):
    """Whether a vector is a scale or a variance, which belong near 1, and not a shift."""
    for node, position in users.get(name, []):
        if node.op_type == "BatchNormalization" and position in (1, 4) or node.op_type == "Mul":
            return True
        if node.op_type == "Unsqueeze" and is_factor(node.output[0], users):
            return True
    return False


def values(shape, factor, random):
    numbers = random.standard_normal(shape, dtype=np.float32)
    if len(shape) < 2:
        return numbers * np.float32(0.02) + np.float32(1 if factor else 0)
    return numbers / np.float32(np.sqrt(np.prod(shape[1:])))


def fill(model):
    graph, random = model.graph, np.random.default_rng(SEED)
    users = users_of(graph)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    constants = [node for node in graph.node if node.op_type == "ConstantOfShape"]
    for node in constants:
        name, shape = node.output[0], tuple(int(n) for n in shapes[node.input[0]])
        graph.initializer.append(numpy_helper.from_array(values(shape, is_factor(name, users), random), name))
        graph.node.remove(node)
    unused = {node.input[0] for node in constants} - {name for node in graph.node for name in node.input}
    for fields in (graph.initializer, graph.input):
        for field in [field for field in fields if field.name in unused]:
            fields.remove(field)


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for file in sorted(LIGHT.glob("*.onnx")):
        model = onnx.load(file)
        fill(model)
        model.ir_version = 4  # the first in which an initializer need not be an input, and so is a constant
        onnx.save(model, directory / file.name.removeprefix("light_"))
