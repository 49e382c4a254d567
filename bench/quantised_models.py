#!/usr/bin/env python3
"""Makes quantised networks: quantised_models.py DIRECTORY, for rlx bench DIRECTORY/*.onnx --peer ort.

MobileNetV2 (M. Sandler et al. 2018) with seeded random weights, quantised by ONNX Runtime's quantize_static: pairs of
QuantizeLinear and DequantizeLinear around each layer, activations in u8, weights in i8 with a scale for each filter
(mobilenetv2_qdq.onnx) or for each tensor (mobilenetv2_qdq_tensor.onnx). Needs python3-onnx and python3-onnxruntime.
"""
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SEED = 1
SIZE = 224
# Expansion, channels, blocks, stride of the first block.
BLOCKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


class Network:
    def __init__(self):
        self.random = np.random.default_rng(SEED)
        self.nodes, self.weights = [], []

    def weight(self, shape, deviation):
        name = f"w{len(self.weights)}"
        numbers = self.random.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
        self.weights.append(numpy_helper.from_array(numbers, name))
        return name

    def node(self, op, inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x, channels, filters, kernel, stride, groups=1, relu=True):
        deviation = np.sqrt(2 / (channels // groups * kernel * kernel))
        w = self.weight((filters, channels // groups, kernel, kernel), deviation)
        pad = kernel // 2
        y = self.node("Conv", [x, w, self.weight((filters,), 0.1)], strides=[stride] * 2, pads=[pad] * 4, group=groups,
                      kernel_shape=[kernel] * 2)
        return self.node("Relu", [y]) if relu else y

    def block(self, x, channels, expansion, filters, stride):
        wide = channels * expansion
        y = self.conv(x, channels, wide, 1, 1) if expansion > 1 else x
        y = self.conv(y, wide, wide, 3, stride, groups=wide)
        y = self.conv(y, wide, filters, 1, 1, relu=False)
        return self.node("Add", [x, y]) if stride == 1 and channels == filters else y

    def model(self):
        x, channels = self.conv("input", 3, 32, 3, 2), 32
        for expansion, filters, count, stride in BLOCKS:
            for i in range(count):
                x, channels = self.block(x, channels, expansion, filters, stride if i == 0 else 1), filters
        x = self.node("GlobalAveragePool", [self.conv(x, channels, 1280, 1, 1)])
        x = self.node("Flatten", [x])
        y = self.node("Gemm", [x, self.weight((1000, 1280), 1 / np.sqrt(1280)), self.weight((1000,), 0.1)], transB=1)
        graph = helper.make_graph(
            self.nodes, "mobilenetv2",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
            [helper.make_tensor_value_info(y, TensorProto.FLOAT, [1, 1000])], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        return model


class Pictures(CalibrationDataReader):
    def __init__(self):
        random = np.random.default_rng(SEED)
        self.left = [{"input": random.standard_normal((1, 3, SIZE, SIZE), dtype=np.float32)} for _ in range(2)]

    def get_next(self):
        return self.left.pop() if self.left else None


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "mobilenetv2.onnx"
        onnx.save(Network().model(), plain)
        for name, per_channel in (("mobilenetv2_qdq", True), ("mobilenetv2_qdq_tensor", False)):
            quantize_static(plain, directory / f"{name}.onnx", Pictures(), quant_format=QuantFormat.QDQ,
                            per_channel=per_channel, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
