#!/usr/bin/env python3
"""Writes cases of `rlx bench` as ONNX models: ort_models.py DIRECTORY WORD... makes DIRECTORY/CASE.onnx for each word that
is a case, and for all cases if no word is one and none is a network or a file. The words are the arguments of `rlx bench`.

Shapes and operations are those of src/measure/*_cases.cpp and src/models/bert.cpp; weights are random with a fixed seed.
Here what rlx keeps on the device is an input. Left out are cases about memory that ONNX does not describe (matvec_nk, encoded
weights) and most of those that need several operators of it. What another version of this file made is deleted.
"""
import hashlib
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20  # the first with Gelu
IR_VERSION = 9  # from the same time as the opset
SEED = 1
HIDDEN, HEADS, WIDE, TOKENS = 768, 12, 3072, 128
VOCABULARY, POSITIONS, TOKEN_TYPES = 30522, 512, 2


class Model:
    """A graph that grows node by node; values are named by strings, as in ONNX."""

    def __init__(self):
        self.nodes, self.inputs, self.constants = [], [], []
        self.random = np.random.default_rng(SEED)

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, array):
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def scalar(self, value):
        return self.constant(np.array(value, dtype=np.float32))

    def integers(self, *values):
        return self.constant(np.array(values, dtype=np.int64))

    def weight(self, *shape, around=0.0):
        values = self.random.standard_normal(shape, dtype=np.float32)
        return self.constant(values * np.float32(0.02) + np.float32(around))

    def op(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def save(self, path, output, shape):
        self.nodes[-1].output[0] = output
        graph = helper.make_graph(
            self.nodes,
            path.stem,
            self.inputs,
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def add16(path):
    m = Model()
    m.op("Add", m.input("a", [16]), m.input("b", [16]))
    m.save(path, "y", [16])


def matmul(path, rows, depth, columns):
    m = Model()
    m.op("MatMul", m.input("a", [rows, depth]), m.input("b", [depth, columns]))
    m.save(path, "y", [rows, columns])


def product(path, rows, depth, columns):
    m = Model()
    m.op("MatMul", m.input("a", [rows, depth]), m.weight(depth, columns))
    m.save(path, "y", [rows, columns])


def conv(path, channels, filters, size):
    m = Model()
    x, w = m.input("x", [1, channels, 56, 56]), m.weight(filters, channels, size, size)
    m.op("Conv", x, w, kernel_shape=[size, size], pads=[size // 2] * 4)
    m.save(path, "y", [1, filters, 56, 56])


def depthwise(path, stride):
    m = Model()
    x, w = m.input("x", [1, 256, 56, 56]), m.weight(256, 1, 3, 3)
    m.op("Conv", x, w, kernel_shape=[3, 3], pads=[1] * 4, strides=[stride] * 2, group=256)
    m.save(path, "y", [1, 256, 56 // stride, 56 // stride])


def depthwise_in_time(path):
    m = Model()
    m.op("Conv", m.input("x", [1, 256, 1000]), m.weight(256, 1, 31), kernel_shape=[31], pads=[15] * 2, group=256)
    m.save(path, "y", [1, 256, 1000])


def conv_of_sound(path):
    m = Model()
    m.op("Conv", m.input("x", [1, 1, 80000]), m.weight(258, 1, 512), kernel_shape=[512], strides=[160])
    m.save(path, "y", [1, 258, 497])


def softmax(path, shape, axis):
    m = Model()
    m.op("Softmax", m.input("x", shape), axis=axis)
    m.save(path, "y", shape)


def layer_norm(path):
    m = Model()
    m.op("LayerNormalization", m.input("x", [4096, 768]), m.weight(768, around=1.0), m.weight(768), axis=-1)
    m.save(path, "y", [4096, 768])


def summed(path, shape, axes, result):
    m = Model()
    m.op("ReduceSum", m.input("x", shape), m.integers(*axes), keepdims=0)
    m.save(path, "y", result)


def transposed(path, shape, order):
    m = Model()
    m.op("Transpose", m.input("x", shape), perm=order)
    m.save(path, "y", [shape[axis] for axis in order])


def joined(path, shape, axis):
    m = Model()
    m.op("Concat", m.input("a", shape), m.input("b", shape), axis=axis)
    m.save(path, "y", [2 * size if i == axis else size for i, size in enumerate(shape)])


def embedded(path, words):
    m = Model()
    m.op("Gather", m.weight(VOCABULARY, HIDDEN), m.input("ids", [words], TensorProto.INT64))
    m.save(path, "y", [words, HIDDEN])


def attended(path, tokens):
    """In operators of ONNX, as in BERT."""
    m = Model()
    q, k, v = (m.input(name, [1, HEADS, tokens, HIDDEN // HEADS]) for name in "qkv")
    scores = m.op("MatMul", q, m.op("Transpose", k, perm=[0, 1, 3, 2]))
    weights = m.op("Softmax", m.op("Mul", scores, m.scalar((HIDDEN // HEADS) ** -0.5)), axis=-1)
    m.op("MatMul", weights, v)
    m.save(path, "y", [1, HEADS, tokens, HIDDEN // HEADS])


def elementwise(path):
    m = Model()
    x = m.input("x", [4 << 20])
    a = m.op("Tanh", m.op("Add", m.op("Mul", x, m.scalar(1.5)), m.scalar(0.25)))
    b = m.op("Sub", m.op("Mul", m.op("Sigmoid", a), a), x)
    m.op("Sqrt", m.op("Abs", b))
    m.save(path, "y", [4 << 20])


def linear(m, x, wide_in, wide_out):
    return m.op("Add", m.op("MatMul", x, m.weight(wide_in, wide_out)), m.weight(wide_out))


def norm(m, x):
    scale, shift = m.weight(HIDDEN, around=1.0), m.weight(HIDDEN)
    return m.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)


def embeddings(m):
    ids = [m.input(name, [1, TOKENS], TensorProto.INT64) for name in ("input_ids", "token_type_ids")]
    words = m.op("Gather", m.weight(VOCABULARY, HIDDEN), ids[0])
    types = m.op("Gather", m.weight(TOKEN_TYPES, HIDDEN), ids[1])
    positions = m.op("Slice", m.weight(POSITIONS, HIDDEN), m.integers(0), m.integers(TOKENS), m.integers(0))
    return norm(m, m.op("Add", m.op("Add", words, types), positions))


def attention_bias(m):
    """What is added to the scores: 0, or the lowest float where the key is padding. Once for all layers."""
    mask = m.input("attention_mask", [1, TOKENS], TensorProto.INT64)
    keep = m.op("Reshape", m.op("Cast", mask, to=TensorProto.BOOL), m.integers(1, 1, 1, TOKENS))
    return m.op("Where", keep, m.scalar(0), m.scalar(np.finfo(np.float32).min))


def heads_first(m, x, order):
    return m.op("Transpose", m.op("Reshape", x, m.integers(1, TOKENS, HEADS, HIDDEN // HEADS)), perm=order)


def attention(m, q, k, v, bias):
    """In operators of ONNX: ONNX Runtime's own MultiHeadAttention returns wrong values on lavapipe (1.30.0)."""
    q, k, v = heads_first(m, q, [0, 2, 1, 3]), heads_first(m, k, [0, 2, 3, 1]), heads_first(m, v, [0, 2, 1, 3])
    scores = m.op("Mul", m.op("MatMul", q, k), m.scalar((HIDDEN // HEADS) ** -0.5))
    weights = m.op("Softmax", m.op("Add", scores, bias), axis=-1)
    context = m.op("Transpose", m.op("MatMul", weights, v), perm=[0, 2, 1, 3])
    return m.op("Reshape", context, m.integers(1, TOKENS, HIDDEN))


def bert(path, layers):
    m = Model()
    x = embeddings(m)
    bias = attention_bias(m)
    for _ in range(layers):
        q, k, v = (linear(m, x, HIDDEN, HIDDEN) for _ in range(3))
        context = attention(m, q, k, v, bias)
        middle = norm(m, m.op("Add", linear(m, context, HIDDEN, HIDDEN), x))
        wide = m.op("Gelu", linear(m, middle, HIDDEN, WIDE))
        x = norm(m, m.op("Add", linear(m, wide, WIDE, HIDDEN), middle))
    m.save(path, "last_hidden_state", [1, TOKENS, HIDDEN])


CASES = {
    "add16": add16,
    "matmul256": lambda path: matmul(path, 256, 256, 256),
    "matmul512": lambda path: matmul(path, 512, 512, 512),
    "matmul1024": lambda path: matmul(path, 1024, 1024, 1024),
    "matmul_odd": lambda path: matmul(path, 33, 129, 257),
    "matmul_deep": lambda path: matmul(path, 64, 4096, 64),
    "matmul_flat": lambda path: matmul(path, 2048, 64, 2048),
    "matvec": lambda path: product(path, 1, 4096, 4096),
    "small_m": lambda path: product(path, 7, 768, 3072),
    "linear512": lambda path: product(path, 512, 4096, 4096),
    "bert_qkv": lambda path: product(path, 128, 768, 2304),
    "bert_up": lambda path: product(path, 128, 768, 3072),
    "bert_down": lambda path: product(path, 128, 3072, 768),
    "conv3x3": lambda path: conv(path, 64, 64, 3),
    "conv1x1": lambda path: conv(path, 256, 64, 1),
    "depthwise3x3": lambda path: depthwise(path, 1),
    "depthwise3x3_s2": lambda path: depthwise(path, 2),
    "depthwise31": depthwise_in_time,
    "conv_stft": conv_of_sound,
    "layer_norm": layer_norm,
    "softmax": lambda path: softmax(path, [4096, 768], -1),
    "softmax_axis1": lambda path: softmax(path, [64, 128, 1024], 1),
    "sum_rows": lambda path: summed(path, [4096, 768], [1], [4096]),
    "sum_columns": lambda path: summed(path, [4096, 768], [0], [768]),
    "sum_all": lambda path: summed(path, [4 << 20], [0], []),
    "transpose": lambda path: transposed(path, [2048, 2048], [1, 0]),
    "transpose_batch": lambda path: transposed(path, [12, 128, 64], [0, 2, 1]),
    "transpose_heads": lambda path: transposed(path, [128, 12, 64], [1, 0, 2]),
    "transpose_nhwc": lambda path: transposed(path, [1, 64, 112, 112], [0, 2, 3, 1]),
    "concat_last": lambda path: joined(path, [4096, 384], 1),
    "concat_first": lambda path: joined(path, [2048, 768], 0),
    "concat_channels": lambda path: joined(path, [1, 32, 112, 112], 1),
    "gather128": lambda path: embedded(path, 128),
    "gather4096": lambda path: embedded(path, 4096),
    "elementwise": elementwise,
    "attention128": lambda path: attended(path, 128),
    "attention1024": lambda path: attended(path, 1024),
    "bert-4": lambda path: bert(path, 4),
    "bert-base": lambda path: bert(path, 12),
}


def asked_for(words):
    cases = [word for word in words if word in CASES]
    others = any(word.startswith(("ocr_", "moonshine_")) or word.endswith(".onnx") for word in words)
    return cases if cases or others else list(CASES)


def make_directory(directory):
    directory.mkdir(parents=True, exist_ok=True)
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    stamp = directory / "version"
    if stamp.exists() and stamp.read_text() == version:
        return
    for old in directory.glob("*.onnx"):
        old.unlink()
    stamp.write_text(version)


def main(directory, words):
    make_directory(directory)
    for name in asked_for(words):
        path = directory / f"{name}.onnx"
        if path.exists():
            continue
        partial = directory / f"{name}.partial"
        CASES[name](partial)
        partial.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
