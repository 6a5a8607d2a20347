"""Resizes whose sizes are known at binding."""

from typing import Any

import numpy as np
import pytest
from tests.open_sizes import OpenSizes
from tests.single_node import SingleNode

from treadle import dtypes
from treadle.graph.graph import Graph

SIZES = {"b": 2, "h": 13, "w": 17, "p": 20, "q": 11}


def _graph(attrs: dict[str, Any], scales: tuple[float, ...] | None = None, dtype: dtypes.DType = dtypes.f32) -> Graph:
    """Resizes x: [b, 3, h, w] by `scales`, or to the last two dimensions of `like`."""
    graph = Graph("resize")
    x = graph.input("x", dtype, ("b", 3, "h", "w"))
    if scales is not None:
        operands = [x, None, graph.constant(np.array(scales, np.float32)), None]
    else:
        like = graph.input("like", dtypes.f32, ("p", "q"))
        first = graph.add("shape", [x], {"start": 0, "end": 2}, name="first").output
        second = graph.add("shape", [like], {"start": 0, "end": None}, name="second").output
        operands = [x, None, None, graph.add("concat", [first, second], {"axis": 0}, name="sizes").output]
    graph.outputs = [graph.add("resize", operands, attrs, name="resize").output]
    return graph


def _check(attrs: dict[str, Any], *, sizes: dict[str, int], scales: tuple[float, ...] | None = None) -> list[str]:
    """The result for `sizes` is that of constant tables, bit for bit. Returns the kernel families."""
    opened = OpenSizes(_graph(attrs, scales))
    shape = (sizes["b"], 3, sizes["h"], sizes["w"])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    like = np.zeros((sizes["p"], sizes["q"]), np.float32)
    given = None if scales is None else np.array(scales, np.float32)
    wanted = np.array([*shape[:2], *like.shape]) if scales is None else None
    known = SingleNode("resize", [x, None, given, wanted], attrs, constants=(1, 2, 3))
    assert opened.run({"x": x, "like": like}, **sizes)[0].tobytes() == known.run()[0].tobytes()
    return opened.families


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
@pytest.mark.parametrize("exclude", [False, True])
def test_tables_are_those_of_known_sizes(mode: str, coordinates: str, exclude: bool) -> None:
    """
    Up and down, and to one position.
    """
    attrs = {"mode": mode, "coordinate_mode": coordinates, "exclude_outside": exclude}
    for more in ({}, {"b": 1, "h": 5, "w": 3, "p": 64, "q": 100}, {"p": 1, "q": 2}):
        found = _check(attrs, sizes={**SIZES, **more})
        assert found == ["interpolation", "resample"] * 2


def test_scales_are_ratios() -> None:
    """
    Whole factors, fractions of few bits, and factors that f32 rounds; an axis whose factor is 1 is left alone.
    """
    attrs = {"mode": "linear", "coordinate_mode": "half_pixel"}
    assert _check(attrs, sizes=SIZES, scales=(1, 1, 2, 1)) == ["interpolation", "resample"]
    assert _check(attrs, sizes=SIZES, scales=(1, 1, 1.5, 0.3)) == ["interpolation", "resample"] * 2


def test_the_batch_alone_may_be_open() -> None:
    """
    Tables of axes of known sizes are constants.
    """
    graph = _graph({"mode": "linear", "coordinate_mode": "half_pixel"}, (1, 1, 2, 2))
    graph.inputs[0].shape = ("b", 3, 5, 7)
    opened = OpenSizes(graph)
    assert opened.families == ["resample", "resample"]
    x = np.random.default_rng(0).standard_normal((3, 3, 5, 7)).astype(np.float32)
    assert opened.run({"x": x}, b=3)[0].shape == (3, 3, 10, 14)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("exclude", [False, True])
def test_antialiased_tables_have_as_many_taps_as_the_scale_needs(mode: str, exclude: bool) -> None:
    """
    Up, down, far down, and to the same size; by factors too.
    """
    attrs = {"mode": mode, "coordinate_mode": "half_pixel", "antialias": True, "exclude_outside": exclude}
    for more in ({}, {"p": 64, "q": 100}, {"p": 3, "q": 2}, {"p": 13, "q": 9}):
        assert _check(attrs, sizes={**SIZES, **more}) == ["interpolation", "resample"] * 2
    assert _check(attrs, sizes=SIZES, scales=(1, 1, 0.5, 0.3)) == ["interpolation", "resample"] * 2
