"""Graphs that isolate one task of a scheduler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto

from benches.models.network import Network


def independent_matmuls(name: str, path: Path, *, count: int, size: int) -> None:
    """`count` products of one [size, size] input with different weights, each an output."""
    net = Network(name)
    x = net.input("x", TensorProto.FLOAT, [size, size])
    products = [net.op("MatMul", x, net.weight((size, size), size)) for _ in range(count)]
    net.save_all(products, [size, size], path)


def matmuls_64x128(path: Path) -> None:
    """64 independent 128 x 128 x 128 matmuls."""
    independent_matmuls("matmuls_64x128", path, count=64, size=128)


def matmuls_256x32(path: Path) -> None:
    """256 independent 32 x 32 x 32 matmuls."""
    independent_matmuls("matmuls_256x32", path, count=256, size=32)


def matmuls_256x64(path: Path) -> None:
    """256 independent 64 x 64 x 64 matmuls."""
    independent_matmuls("matmuls_256x64", path, count=256, size=64)


def matmul_2048(path: Path) -> None:
    """One 2048 x 2048 x 2048 matmul of two inputs that exceed most caches."""
    net = Network("matmul_2048")
    a, b = (net.input(name, TensorProto.FLOAT, [2048, 2048]) for name in "ab")
    net.save(net.op("MatMul", a, b), [2048, 2048], path)


def towers_3x3(path: Path) -> None:
    """Four towers of six 3 x 3 convolutions (64 channels, 28 x 28) on one input, concatenated."""
    net = Network("towers_3x3")
    x = net.input("x", TensorProto.FLOAT, [1, 64, 28, 28])
    ends = []
    for _ in range(4):
        y = x
        for _ in range(6):
            y = net.conv_relu(y, (64, 64), 3, 1, 1)
        ends.append(y)
    net.save(net.op("Concat", *ends, axis=1), [1, 256, 28, 28], path)


def chain_1000(path: Path) -> None:
    """A chain of 1,000 additions of 8 numbers."""
    net = Network("chain_1000")
    x = net.input("x", TensorProto.FLOAT, [8])
    one = net.constant("one", np.ones(8, np.float32))
    for _ in range(1000):
        x = net.op("Add", x, one)
    net.save(x, [8], path)


def fan_1000(path: Path) -> None:
    """1,000 independent products of 8 numbers and the input, joined at the end."""
    net = Network("fan_1000")
    x = net.input("x", TensorProto.FLOAT, [8])
    ends = [net.op("Mul", x, net.weight((8,), 8)) for _ in range(1000)]
    net.save(net.op("Concat", *ends, axis=0), [8000], path)
