"""Pads, and resizes to the nearest neighbour, whose sizes are known at binding."""

from typing import Any

import numpy as np
import pytest
from tests.open_sizes import OpenSizes
from tests.single_node import SingleNode

from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.interpolation import NEAREST_MODES

PADS = [
    (0, 0, 0, 0, 0, 2),
    (0, 1, 3, 0, 0, 2),
    (1, 0, 0, 1, 0, 0),
    (0, -1, 2, 0, 0, -3),
    (0, 4, -2, 0, 30, 25),
]
MODES = ["constant", "edge", "reflect", "wrap"]


def _check(graph: Graph, known: SingleNode, x: np.ndarray, **sizes: int) -> list[str]:
    """The result is that of constant tables, bit for bit. Returns the kernel families."""
    opened = OpenSizes(graph)
    assert opened.run({"x": x}, **sizes)[0].tobytes() == known.run()[0].tobytes()
    return opened.families


def _open(op: str, dtype: dtypes.DType, *operands: np.ndarray | None, **attrs: Any) -> Graph:
    graph = Graph(op)
    x = graph.input("x", dtype, ("b", "h", "w"))
    given = [None if array is None else graph.constant(array) for array in operands]
    graph.outputs = [graph.add(op, [x, *given], attrs, name=op).output]
    return graph


@pytest.mark.parametrize(
    ("mode", "pads"), [*((mode, pads) for mode in MODES for pads in PADS), ("constant", (0, 0, -9, 0, 0, 4))], ids=str
)
def test_pads_of_open_axes(mode: str, pads: tuple[int, ...]) -> None:
    """
    Added and taken away, by far more than there is, on the last axis and on others, in every mode.
    """
    x = np.random.default_rng(0).integers(0, 99, (2, 7, 9)).astype(np.int32)
    widths, fill = np.array(pads), np.array(-1, np.int32)
    graph = _open("pad", dtypes.i32, widths, fill, mode=mode)
    known = SingleNode("pad", [x, widths, fill], {"mode": mode}, constants=(1, 2))

    families = _check(graph, known, x, b=2, h=7, w=9)

    assert families[-1] == "lookup"
    assert set(families[:-1]) == {"places"}


@pytest.mark.parametrize("extra", [0, 5])
def test_pads_that_are_sizes(extra: int) -> None:
    """
    Up to the length of another input, as batches are padded: the pad may be 0.
    """
    graph = Graph("pad")
    x, like = graph.input("x", dtypes.f32, ("b", "w")), graph.input("like", dtypes.f32, ("p",))
    number = 0

    def op(name: str, *inputs: Value | None, **attrs: Any) -> Value:
        nonlocal number
        number += 1
        return graph.add(name, inputs, attrs, name=f"{name}{number}").output

    zero = graph.constant(np.zeros(1, np.int64))
    missing = op("sub", op("shape", like, start=0, end=None), op("shape", x, start=1, end=2))
    graph.outputs = [op("pad", x, op("concat", zero, zero, zero, missing, axis=0), None, mode="constant")]
    array = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)

    opened = OpenSizes(graph, b=4, w=10, p=20)
    found = opened.run({"x": array, "like": np.zeros(6 + extra, np.float32)}, b=3, w=6, p=6 + extra)

    np.testing.assert_array_equal(found[0], np.pad(array, ((0, 0), (0, extra))))


@pytest.mark.parametrize("nearest", NEAREST_MODES)
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
@pytest.mark.parametrize("scales", [(1, 2, 1), (1, 2, 3), (1, 0.3, 1.7)])
def test_nearest_neighbours(nearest: str, coordinates: str, scales: tuple[float, ...]) -> None:
    """
    By factors that f32 holds and by others; axes before and behind the resized ones are copied whole.
    """
    x = np.random.default_rng(0).standard_normal((2, 7, 9)).astype(np.float32)
    attrs = {"mode": "nearest", "coordinate_mode": coordinates, "nearest_mode": nearest}
    graph = _open("resize", dtypes.f32, None, np.array(scales, np.float32), None, **attrs)
    known = SingleNode("resize", [x, None, np.array(scales, np.float32), None], attrs, constants=(2,))

    families = _check(graph, known, x, b=2, h=7, w=9)

    assert families == ["places"] * (2 if scales[2] == 1 else 3) + ["lookup"]
