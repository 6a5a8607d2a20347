"""Subnormal weights count as 0 in fast math, and are multiplied in exact math."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import treadle
from treadle.dtypes import f32
from treadle.graph.graph import Graph
from treadle.passes.lower.subnormals import without_subnormals

Array = np.ndarray[Any, Any]

_SUBNORMAL = 2.0**-140
_LARGE = 2.0**115
"""Products of this with subnormal numbers are ordinary numbers, and its sums are finite."""


def _weights(shape: tuple[int, ...]) -> Array:
    """Weights of which every other output has subnormal ones alone."""
    weights = np.ones(shape, np.float32)
    weights[::2] = _SUBNORMAL
    return weights


def _convolution(kernel: tuple[int, int], groups: int) -> tuple[Graph, tuple[int, ...]]:
    graph = Graph()
    x = graph.input("x", f32, (1, 32, 8, 8))
    weights = graph.constant(_weights((32, 32 // groups, *kernel)), "weights")
    pads = (kernel[0] // 2, kernel[1] // 2) * 2
    attrs = {"strides": (1, 1), "pads": pads, "dilations": (1, 1), "groups": groups}
    bias = graph.constant(np.full(32, _SUBNORMAL, np.float32), "bias")
    graph.outputs = [graph.add("conv", [x, weights, bias], attrs).output]
    return graph, (1, 32, 8, 8)


def _product() -> tuple[Graph, tuple[int, ...]]:
    graph = Graph()
    x = graph.input("x", f32, (6, 32))
    weights = graph.constant(np.ascontiguousarray(_weights((32, 32)).T), "weights")
    graph.outputs = [graph.add("matmul", [x, weights]).output]
    return graph, (6, 32)


MODELS = {
    "1x1": lambda: _convolution((1, 1), 1),
    "3x3": lambda: _convolution((3, 3), 1),
    "depthwise": lambda: _convolution((3, 3), 32),
    "product": _product,
}


@pytest.mark.parametrize("math", ["fast", "exact"])
@pytest.mark.parametrize("name", MODELS)
def test_subnormal_weights_count_as_zero_unless_math_is_exact(name: str, math: Literal["fast", "exact"]) -> None:
    graph, shape = MODELS[name]()
    (found,) = treadle.Session(graph, math=math).run({"x": np.full(shape, _LARGE, np.float32)}).values()
    small = found[:, ::2]
    assert (small == 0).all() if math == "fast" else (small > 0).all()
    assert (found[:, 1::2] > 1).all()


def test_a_subnormal_bias_counts_as_zero() -> None:
    graph, shape = _convolution((1, 1), 1)
    (found,) = treadle.Session(graph).run({"x": np.zeros(shape, np.float32)}).values()
    assert (found == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_subnormal_numbers_are_replaced(dtype: Any) -> None:
    least = np.finfo(dtype).smallest_normal
    numbers = np.array([0.0, -0.0, least, -least, np.inf, np.nan, 1.0], dtype)
    assert without_subnormals(numbers) is numbers
    many = np.resize(numbers, 100_000)
    many[70_000:90_000:3] = least / 2
    wanted = many.copy()
    wanted[70_000:90_000:3] = 0
    found = without_subnormals(many.reshape(100, 1000))
    np.testing.assert_array_equal(found.reshape(-1).view(np.uint8), wanted.view(np.uint8))
    assert many[70_000] == least / 2
