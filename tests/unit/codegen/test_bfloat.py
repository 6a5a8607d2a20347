"""bf16 is widened and rounded in registers, on every instruction set."""

from __future__ import annotations

import numpy as np
from tests.kernel_runner import run_graph

from treadle.dtypes import DType, bf16, f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.passes.lower.bf16_dot import bf16_bits, pack_bf16
from treadle.plan.target import Target

SMALLEST = np.float32(2.0**-126)
"""The smallest normal number: the instruction of AVX512_BF16 makes smaller ones 0."""


def cast(array: np.ndarray, source: DType, result: DType, target: Target) -> np.ndarray:
    """`array` cast by a kernel."""
    graph = Graph()
    x = graph.input("x", source, array.shape)
    y = graph.value("y", result, array.shape)
    graph.add("elementwise", [x], {"expr": Expr((source,), (Step("cast", (0,), result),), (1,))}, outputs=[y])
    graph.outputs = [y]
    return run_graph(graph, {"x": array}, target=target)["y"]


def test_every_bf16_is_widened_exactly(target: Target) -> None:
    """
    All 65,536 patterns, NaN and subnormals among them, keep their bits in the upper half.
    """
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = cast(bits.view(bf16.numpy), bf16, f32, target)
    assert np.array_equal(wide.view(np.uint32), bits.astype(np.uint32) << 16)


def test_f32_is_rounded_to_nearest_ties_to_even(target: Target) -> None:
    """
    Ties, neighbours of ties, the largest numbers, infinities, zeros of both signs and random patterns.
    """
    upper = np.arange(0x0080, 0x7F81, dtype=np.uint32)[:, None] << 16
    patterns = (upper + np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)).reshape(-1)
    patterns = np.concatenate([patterns, patterns | np.uint32(1 << 31), np.array([0, 1 << 31], np.uint32)])
    values = patterns.view(np.float32)
    values = values[~np.isnan(values)]
    found = cast(values, f32, bf16, target).view(np.uint16)
    wanted = values.astype(bf16.numpy).view(np.uint16)
    assert np.array_equal(found, wanted)
    assert np.array_equal(bf16_bits(values), wanted)


def test_nan_and_subnormal_numbers(target: Target) -> None:
    """
    NaN of every kind stays NaN; a subnormal number becomes the nearest one, or 0.
    """
    nans = np.array([0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(cast(nans, f32, bf16, target).astype(np.float32)).all()
    assert np.isnan((bf16_bits(nans).astype(np.uint32) << 16).view(np.float32)).all()
    small = np.linspace(-SMALLEST, SMALLEST, 999, dtype=np.float32)[1:-1]
    found = cast(small, f32, bf16, target).astype(np.float32)
    if target.has_bf16_dot:
        assert ((found == 0) | (np.abs(found) == SMALLEST)).all()
    else:
        assert np.array_equal(found, small.astype(bf16.numpy).astype(np.float32))


def test_packed_elements_hold_neighbours_and_an_odd_axis_is_padded() -> None:
    """
    Element 2 i is the lower half, 2 i + 1 the upper half.
    """
    values = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
    packed = pack_bf16(values, axis=0)
    lower, upper = (packed << 16).view(np.float32), (packed & np.uint32(0xFFFF0000)).view(np.float32)
    assert lower.tolist() == [[1.0, 2.0], [5.0, 6.0]]
    assert upper.tolist() == [[3.0, 4.0], [0.0, 0.0]]
