#!/usr/bin/env python3
"""Writes convolutions of image networks as ONNX models: conv_models.py DIRECTORY, for rlx bench DIRECTORY/*.onnx --peer ort.

All are at 56 x 56 with batch 1, each convolution with a bias and mostly a relu, as networks have them after the folding of
batch norms. Weights are random with a fixed seed.
"""
import sys
from pathlib import Path

from ort_models import Model

SIZE = 56


def conv(m, x, channels, filters, size, groups=1):
    weight, bias = m.weight(filters, channels // groups, size, size), m.weight(filters)
    return m.op("Conv", x, weight, bias, kernel_shape=[size, size], pads=[size // 2] * 4, group=groups)


def conv_relu(*arguments, **keywords):
    return arguments[0].op("Relu", conv(*arguments, **keywords))


def one_conv(path, channels, filters, size, groups=1):
    m = Model()
    conv_relu(m, m.input("x", [1, channels, SIZE, SIZE]), channels, filters, size, groups)
    m.save(path, "y", [1, filters, SIZE, SIZE])


def resnet_like(path):
    """Four bottlenecks of ResNet-50's first stage, a depthwise-separable block, the mean of each channel, a classifier."""
    m = Model()
    x = m.input("x", [1, 256, SIZE, SIZE])
    for _ in range(4):
        narrow = conv_relu(m, conv_relu(m, x, 256, 64, 1), 64, 64, 3)
        x = m.op("Relu", m.op("Add", conv(m, narrow, 64, 256, 1), x))
    x = conv_relu(m, conv_relu(m, x, 256, 256, 3, groups=256), 256, 256, 1)
    x = m.op("Flatten", m.op("GlobalAveragePool", x), axis=1)
    m.op("Gemm", x, m.weight(1000, 256), m.weight(1000), transB=1)
    m.save(path, "y", [1, 1000])


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    one_conv(directory / "conv3x3.onnx", 64, 64, 3)
    one_conv(directory / "conv1x1.onnx", 256, 64, 1)
    one_conv(directory / "depthwise64.onnx", 64, 64, 3, groups=64)
    one_conv(directory / "depthwise256.onnx", 256, 256, 3, groups=256)
    resnet_like(directory / "resnet_like.onnx")
