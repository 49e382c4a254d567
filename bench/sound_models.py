#!/usr/bin/env python3
"""Writes networks of sound as ONNX models: sound_models.py DIRECTORY, for rlx bench DIRECTORY/*.onnx --peer ort.

gtcrn is the network of "GTCRN: a speech enhancement model requiring ultralow computational resources" (Rong et al., 2024) as it runs
on streams: one frame of 257 frequencies at a time, with the past of its convolutions and recurrences as inputs and outputs. It is
written as PyTorch exports it, with batch norms folded. separable is a block of a network of speech: convolutions of single channels
with 31 taps between those of single taps, over 500 frames. Weights are random with a fixed seed.
"""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ort_models import IR_VERSION, OPSET, Model

CHANNELS, BANDS = 16, 33


class SoundModel(Model):
    def weight(self, *shape):
        scale = np.float32(1 / np.sqrt(np.prod(shape[1:])))
        return self.constant(self.random.standard_normal(shape, dtype=np.float32) * scale)

    def several(self, kind, count, *inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        names = [f"{name}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=name, **attributes))
        return names

    def scalar(self, value, kind=np.float32):
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype=kind), name))  # of rank 0
        return name

    def part(self, x, index, axis=0):
        return self.op("Gather", x, self.scalar(index, np.int64), axis=axis)

    def slice(self, x, begin, end, axis):
        return self.op("Slice", x, self.integers(begin), self.integers(end), self.integers(axis))

    def halves(self, x, axis):
        return self.several("Split", 2, x, axis=axis, num_outputs=2)

    def concat(self, *values, axis):
        return self.op("Concat", *values, axis=axis)

    def transpose(self, x, *order):
        return self.op("Transpose", x, perm=order)

    def reshape(self, x, *dims):
        return self.op("Reshape", x, self.integers(*dims))

    def linear(self, x, channels, filters):
        return self.op("Add", self.op("MatMul", x, self.weight(channels, filters)), self.weight(filters))

    def prelu(self, x):
        return self.op("PRelu", x, self.constant(np.full([1, 1, 1], 0.25, np.float32)))

    def write(self, path, outputs):
        for i, (name, _) in enumerate(outputs):
            self.op("Identity", outputs[i][1][0])
            self.nodes[-1].output[0] = name
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, of[1]) for name, of in outputs]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, infos, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def conv(m, x, channels, filters, kernel, kind="Conv", groups=1, **attributes):
    shape = [filters, channels // groups] if kind == "Conv" else [channels, filters // groups]
    return m.op(kind, x, m.weight(*shape, *kernel), m.weight(filters), kernel_shape=kernel, group=groups, **attributes)


def neighbours(m, x, channels, bands):
    """Each band with its two neighbours as channels, as PyTorch writes torch.nn.Unfold."""
    padded = m.op("Pad", x, m.integers(0, 0, 0, 1, 0, 0, 0, 1), m.scalar(0))
    rows = m.op("Gather", padded, m.constant(np.array([[0]])), axis=2)
    columns = m.constant(np.arange(3)[:, None] + np.arange(bands)[None])
    blocks = m.op("Gather", rows, columns, axis=4)
    flat = m.reshape(m.transpose(blocks, 0, 1, 2, 4, 3, 5), 1, 3 * channels, bands)
    return m.reshape(flat, 1, 3 * channels, 1, bands)


def gru(m, x, h, inputs, hidden, direction="forward"):
    """x is [steps, batch, inputs]; the results are [steps, batch, directions * hidden] and the last states."""
    directions = 2 if direction == "bidirectional" else 1
    y, last = m.several("GRU", 2, x, m.weight(directions, 3 * hidden, inputs), m.weight(directions, 3 * hidden, hidden),
                        m.weight(directions, 6 * hidden), "", h, hidden_size=hidden, direction=direction,
                        linear_before_reset=1)
    if directions == 1:
        return m.op("Squeeze", y, m.integers(1)), last
    return m.reshape(m.transpose(y, 0, 2, 1, 3), 0, 0, -1), last


def grouped_gru(m, x, h, direction):
    """Halves of the channels in recurrences of their own; x is [batch, steps, 16]."""
    half = CHANNELS // 2
    outputs, states = [], []
    hidden = half // 2 if direction == "bidirectional" else half
    for part, state in zip(m.halves(x, -1), m.halves(h, -1)):
        y, last = gru(m, m.transpose(part, 1, 0, 2), state, half, hidden, direction)
        outputs.append(m.transpose(y, 1, 0, 2))
        states.append(last)
    return m.concat(*outputs, axis=-1), m.concat(*states, axis=-1)


def norm(m, x):
    """Over bands and channels, spelled out."""
    axes = m.integers(-2, -1)
    centred = m.op("Sub", x, m.op("ReduceMean", x, axes))
    variance = m.op("ReduceMean", m.op("Pow", centred, m.scalar(2)), axes)
    root = m.op("Sqrt", m.op("Add", variance, m.scalar(1e-8)))
    scaled = m.op("Mul", m.op("Div", centred, root), m.weight(BANDS, CHANNELS))
    return m.op("Add", scaled, m.weight(BANDS, CHANNELS))


def dual_path(m, x, cache):
    """Recurrences over bands, in both directions, then over time; x is [1, 16, 1, bands]."""
    by_band = m.transpose(x, 0, 2, 3, 1)
    within = m.reshape(by_band, -1, BANDS, CHANNELS)
    zeros = m.constant(np.zeros([2, 1, CHANNELS // 2], np.float32))
    y, _ = grouped_gru(m, within, zeros, "bidirectional")
    y = norm(m, m.reshape(m.linear(y, CHANNELS, CHANNELS), 1, -1, BANDS, CHANNELS))
    by_band = m.op("Add", by_band, y)
    across = m.reshape(m.transpose(by_band, 0, 2, 1, 3), BANDS, -1, CHANNELS)
    y, cache = grouped_gru(m, across, cache, "forward")
    y = m.transpose(m.reshape(m.linear(y, CHANNELS, CHANNELS), 1, BANDS, -1, CHANNELS), 0, 2, 1, 3)
    return m.transpose(m.op("Add", by_band, norm(m, y)), 0, 3, 1, 2), cache


def temporal_block(m, x, conv_cache, attention_cache, dilation):
    """Half of the channels through a dilated convolution of single channels and attention over time, then mixed."""
    half = CHANNELS // 2
    x1, x2 = m.halves(x, 1)
    wide = m.prelu(conv(m, neighbours(m, x1, half, BANDS), 3 * half, CHANNELS, [1, 1]))
    past = m.concat(conv_cache, wide, axis=2)
    deep = conv(m, past, CHANNELS, CHANNELS, [3, 3], groups=CHANNELS, dilations=[dilation, 1], pads=[0, 1, 0, 1])
    narrow = conv(m, m.prelu(deep), CHANNELS, half, [1, 1])
    energy = m.op("ReduceMean", m.op("Pow", narrow, m.scalar(2)), m.integers(-1), keepdims=0)
    y, attention_cache = gru(m, m.transpose(energy, 2, 0, 1), attention_cache, half, CHANNELS)
    weights = m.op("Sigmoid", m.linear(m.transpose(y, 1, 0, 2), CHANNELS, half))
    kept = m.op("Mul", narrow, m.op("Unsqueeze", m.transpose(weights, 0, 2, 1), m.integers(-1)))
    pair = m.concat(m.op("Unsqueeze", kept, m.integers(1)), m.op("Unsqueeze", x2, m.integers(1)), axis=1)
    mixed = m.reshape(m.transpose(pair, 0, 2, 1, 3, 4), 1, CHANNELS, 1, BANDS)
    return mixed, m.slice(past, 1, 2**31 - 1, 2), attention_cache


def temporal_blocks(m, x, conv_cache, attention_cache, dilations, skips=None):
    conv_caches, attention_caches, outputs, begin = [], [], [], 0
    for i, d in enumerate(dilations):
        if skips:
            x = m.op("Add", x, skips[i])
        past = m.slice(conv_cache, begin, begin + 2 * d, 2)
        begin += 2 * d
        x, new, state = temporal_block(m, x, past, m.part(attention_cache, i), d)
        conv_caches.append(new)
        attention_caches.append(m.op("Unsqueeze", state, m.integers(0)))
        outputs.append(x)
    return outputs, m.concat(*conv_caches, axis=2), m.concat(*attention_caches, axis=0)


def gtcrn(path):
    m = SoundModel()
    spec = m.input("mix", [1, 257, 1, 2])
    conv_cache = m.input("conv_cache", [2, 1, CHANNELS, 16, BANDS])
    attention_cache = m.input("tra_cache", [2, 3, 1, 1, CHANNELS])
    path_cache = m.input("inter_cache", [2, 1, BANDS, CHANNELS])
    stacked = lambda *x: m.concat(*[m.op("Unsqueeze", v, m.integers(0)) for v in x], axis=0)

    real, imaginary = (m.transpose(m.part(spec, i, 3), 0, 2, 1) for i in (0, 1))
    power = m.op("Add", m.op("Pow", real, m.scalar(2)), m.op("Pow", imaginary, m.scalar(2)))
    size = m.op("Sqrt", m.op("Add", power, m.scalar(1e-12)))
    x = m.concat(*[m.op("Unsqueeze", v, m.integers(1)) for v in (size, real, imaginary)], axis=1)
    high = m.op("MatMul", m.slice(x, 65, 2**31 - 1, 3), m.weight(192, 64))
    x = neighbours(m, m.concat(m.slice(x, 0, 65, 3), high, axis=-1), 3, 129)

    first = m.prelu(conv(m, x, 9, CHANNELS, [1, 5], strides=[1, 2], pads=[0, 2, 0, 2]))
    second = m.prelu(conv(m, first, CHANNELS, CHANNELS, [1, 5], groups=2, strides=[1, 2], pads=[0, 2, 0, 2]))
    encoded, conv_0, attention_0 = temporal_blocks(m, second, m.part(conv_cache, 0), m.part(attention_cache, 0), [1, 2, 5])
    x, path_0 = dual_path(m, encoded[-1], m.part(path_cache, 0))
    x, path_1 = dual_path(m, x, m.part(path_cache, 1))
    decoded, conv_1, attention_1 = temporal_blocks(m, x, m.part(conv_cache, 1), m.part(attention_cache, 1), [5, 2, 1],
                                                   encoded[::-1])
    x = m.op("Add", decoded[-1], second)
    x = m.prelu(conv(m, x, CHANNELS, CHANNELS, [1, 5], "ConvTranspose", groups=2, strides=[1, 2], pads=[0, 2, 0, 2]))
    x = m.op("Add", x, first)
    x = m.op("Tanh", conv(m, x, CHANNELS, 2, [1, 5], "ConvTranspose", strides=[1, 2], pads=[0, 2, 0, 2]))

    high = m.op("MatMul", m.slice(x, 65, 2**31 - 1, 3), m.weight(64, 192))
    mask = m.concat(m.slice(x, 0, 65, 3), high, axis=-1)
    given = m.transpose(spec, 0, 3, 2, 1)
    gr, gi, mr, mi = (m.part(v, i, 1) for v in (given, mask) for i in (0, 1))
    re = m.op("Sub", m.op("Mul", gr, mr), m.op("Mul", gi, mi))
    im = m.op("Add", m.op("Mul", gi, mr), m.op("Mul", gr, mi))
    y = m.concat(m.op("Unsqueeze", re, m.integers(1)), m.op("Unsqueeze", im, m.integers(1)), axis=1)
    m.write(path, [("enh", (m.transpose(y, 0, 3, 2, 1), [1, 257, 1, 2])),
                   ("conv_cache_out", (stacked(conv_0, conv_1), [2, 1, CHANNELS, 16, BANDS])),
                   ("tra_cache_out", (stacked(attention_0, attention_1), [2, 3, 1, 1, CHANNELS])),
                   ("inter_cache_out", (stacked(path_0, path_1), [2, 1, BANDS, CHANNELS]))])


def separable(path):
    m = SoundModel()
    x = m.input("x", [1, 256, 500])
    for _ in range(3):
        y = m.op("Sigmoid", conv(m, x, 256, 256, [31], groups=256, pads=[15, 15]))
        x = m.op("Add", x, conv(m, y, 256, 256, [1]))
    m.write(path, [("y", (x, [1, 256, 500]))])


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    gtcrn(directory / "gtcrn.onnx")
    separable(directory / "separable.onnx")
