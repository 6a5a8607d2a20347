"""What becomes of products of 8-bit numbers that no kernel of bytes takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treadle import dtypes
from treadle.codegen import target as targets
from treadle.graph.graph import Graph
from treadle.ops.evaluate import evaluate
from treadle.passes.base import PassContext
from treadle.passes.infer_shapes import InferShapes
from treadle.passes.widen_bytes import WidenBytes

Array = np.ndarray[Any, Any]


def widened(op: str, arrays: list[Array | None], attrs: dict[str, Any]) -> tuple[Graph, Array, Array]:
    """A graph of one node after the pass, and its result before and after it. Operands but the first are constants."""
    graph = Graph("g")
    first = arrays[0]
    assert first is not None
    x = graph.input("x", dtypes.from_numpy(first.dtype), first.shape)
    held = [None if array is None else graph.constant(array, f"c{number}") for number, array in enumerate(arrays[1:])]
    node = graph.add(op, [x, *held], attrs, name=op)
    graph.outputs = [node.output]
    context = PassContext(targets.detect())
    InferShapes().run(graph, context)
    before = evaluate(graph, {"x": first})[graph.outputs[0].name]
    WidenBytes().run(graph, context)
    return graph, before, evaluate(graph, {"x": first})[graph.outputs[0].name]


@pytest.mark.parametrize(("size", "dtype"), [(3, dtypes.f32), (255, dtypes.f64)])
def test_convolutions_are_summed_in_the_narrowest_float_that_is_exact(size: int, dtype: dtypes.DType) -> None:
    """
    Weights beyond i8 have no kernel; how large they are decides. A bias is added to the sums as an integer.
    """
    x, w = np.full((1, 40, 5, 5), 255, np.uint8), np.full((2, 40, 3, 3), size, np.uint8)
    attrs = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1, "zero": 1}

    graph, before, after = widened("conv", [x, w, np.array([1, -5], np.int32)], attrs)

    (conv,) = [node for node in graph.nodes if node.op == "conv"]
    assert conv.operand(0).dtype == dtype
    assert conv.attrs["exact"]
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(("size", "dtype"), [(3, dtypes.f32), (255, dtypes.i32)])
def test_matrix_products_beyond_f32_are_summed_in_i32(size: int, dtype: dtypes.DType) -> None:
    a, b = np.full((3, 301), 255, np.uint8), np.full((301, 4), size, np.uint8)

    graph, before, after = widened("matmul", [a, b], {"transpose_a": False, "transpose_b": False})

    (product,) = [node for node in graph.nodes if node.op == "matmul"]
    assert product.operand(0).dtype == dtype
    np.testing.assert_array_equal(after, before)


def test_products_with_a_kernel_of_bytes_stay() -> None:
    a, b = np.full((3, 8), 255, np.uint8), np.full((8, 4), -128, np.int8)

    graph, _, _ = widened("matmul", [a, b], {"transpose_a": False, "transpose_b": False})

    assert [node.op for node in graph.nodes] == ["matmul"]
    assert graph.nodes[0].operand(0).dtype == dtypes.u8


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("mode", "wide"), [("linear", True), ("cubic", True), ("nearest", False)])
def test_pixels_are_mixed_as_wide_numbers(dtype: Any, mode: str, wide: bool) -> None:
    """
    Rounded, and no larger or smaller than pixels can be; the nearest ones are copied as they are.
    """
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).choice([limits.min, limits.max, 7], (1, 2, 9, 11)).astype(dtype)
    attrs = {"mode": mode, "coordinate_mode": "half_pixel"}
    graph, before, after = widened("resize", [x, None, np.array([1, 1, 1.7, 2.3], np.float32)], attrs)

    assert ("cast" in [node.op for node in graph.nodes]) == wide
    np.testing.assert_array_equal(after, before)
