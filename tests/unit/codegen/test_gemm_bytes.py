"""Matrix products of bytes, whose sums are exact on every instruction set, with and without VNNI."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.assembly import loops_of
from tests.kernel_runner import lower_graph, run_graph, without_vnni

from treadle.dtypes import DType, i8, i32, u8
from treadle.graph.graph import Graph
from treadle.plan.kernels.gemm import GemmSpec
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

SHAPES = {
    "one row": (1, 64, 48),
    "several panels": (33, 128, 100),
    "a narrow panel": (70, 300, 19),
    "blocks of two heights": (13, 1024, 256),
}
"""Rows, depth and columns."""


def factors(shape: tuple[int, int, int], dtype: DType, large: float) -> tuple[Array, Array]:
    """Bytes of `dtype` and weights, of which the share `large` may make two products exceed 16 bits."""
    rows, depth, columns = shape
    rng, info = np.random.default_rng(depth), np.iinfo(dtype.numpy)
    x = rng.integers(info.min, info.max + 1, (rows, depth)).astype(dtype.numpy)
    w = rng.integers(-128, 128, (depth, columns))
    x[0], w[:, 0] = info.max, -128
    return x, np.where(rng.random(w.shape) < large, w, w // 2).astype(np.int8)


def product(x: Array, w: Array, dtype: DType) -> Graph:
    graph = Graph()
    out = graph.value("out", i32, (len(x), w.shape[1]))
    graph.add("matmul", [graph.input("x", dtype, x.shape), graph.constant(w, "w")], outputs=[out])
    graph.outputs = [out]
    return graph


def spec_of(shape: tuple[int, int, int], large: float, target: Target) -> GemmSpec:
    """The kernel that multiplies unsigned bytes."""
    calls, _ = lower_graph(product(*factors(shape, u8, large), u8), target)
    (spec,) = (call.spec for call in calls)
    assert isinstance(spec, GemmSpec)
    return spec


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [u8, i8])
@pytest.mark.parametrize("large", [0.0, 0.01, 1.0])
def test_sums_of_bytes_are_exact(shape: str, dtype: DType, large: float, target: Target) -> None:
    """Weights that are too large for pairs in 16 bits are split if they are few; else bytes are widened."""
    x, w = factors(SHAPES[shape], dtype, large)
    for each in (target, without_vnni(target)):
        for reverse in (False, True):
            (found,) = run_graph(product(x, w, dtype), {"x": x}, target=each, reverse_chunks=reverse).values()
            np.testing.assert_array_equal(found, x.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.parametrize(
    ("large", "words", "remainders"), [(0.0, False, False), (0.01, False, True), (1.0, True, False)]
)
def test_without_vnni_bytes_of_small_weights_are_multiplied(
    large: float, words: bool, remainders: bool, target: Target
) -> None:
    """One instruction multiplies four bytes of a lane; nothing is widened beside it."""
    other = without_vnni(target)
    if not other.has_byte_pairs:
        pytest.skip("the instruction set has no products of bytes")
    spec = spec_of(SHAPES["blocks of two heights"], large, other)
    assert spec.vnni
    assert (spec.words, spec.remainders) == (words, remainders)
    products = [[line.split()[0] for line in body] for body in loops_of(spec, other)]
    longest = max(products, key=lambda body: body.count("vpmaddwd"))
    assert longest.count("vpmaddubsw") == (0 if words else longest.count("vpmaddwd"))
    assert words == any(name.startswith("vpmovsx") for name in longest)


def test_without_products_of_bytes_they_are_widened(target: Target) -> None:
    """Plain x86-64 has no instruction that multiplies bytes."""
    if target.has_byte_pairs:
        pytest.skip("the instruction set has products of bytes")
    assert spec_of(SHAPES["several panels"], 0.0, target).words
