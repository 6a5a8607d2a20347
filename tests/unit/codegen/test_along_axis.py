"""argmax, argmin, cumsum and its like, top_k, trilu."""

from typing import Any

import numpy as np
import pytest
from tests.single_node import SingleNode

from treadle.plan.target import Target


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, np.uint32])
def test_the_extreme_element_is_found(target: Target, op: str, dtype: Any) -> None:
    """
    On every axis, with ties that go to the first or to the last, on rows of any length.
    """
    for shape in ((3, 1, 5), (2, 37, 19), (4, 5, 100), (1, 16, 33)):
        x = np.random.default_rng(0).integers(-20, 20, shape).astype(dtype)
        for axis in range(3):
            for last in (False, True):
                SingleNode(op, [x], {"axis": axis, "keepdims": last, "last": last}).check(target)


@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_a_nan_is_the_extreme_element(target: Target, op: str) -> None:
    """
    The first NaN, or the last, is where the reference finds it.
    """
    generator = np.random.default_rng(1)
    for _ in range(20):
        x = generator.standard_normal((3, 50)).astype(np.float32)
        x[generator.random(x.shape) < 0.05] = np.nan
        for axis in (0, 1):
            for last in (False, True):
                SingleNode(op, [x], {"axis": axis, "keepdims": False, "last": last}).check(target)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_sums_run_along_every_axis(target: Target, exclusive: bool, reverse: bool) -> None:
    """
    Forwards and backwards, with and without the element itself, for floats and wrapping integers.
    """
    attrs = {"exclusive": exclusive, "reverse": reverse}
    for axis in range(3):
        for dtype in (np.float32, np.float64, np.int32, np.int64):
            x = np.random.default_rng(2).integers(-9, 9, (4, 7, 37)).astype(dtype)
            SingleNode("cumsum", [x], {"axis": axis, **attrs}).check(target)
    SingleNode("cumsum", [np.zeros((3, 0), np.float32)], {"axis": 1, **attrs}).check(target)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("op", ["cumprod", "cummax", "cummin", "logcumsumexp"])
def test_products_and_extremes_run_along_every_axis(target: Target, op: str, exclusive: bool) -> None:
    """
    Of floats and integers, backwards too, where vectors fit and where they do not; the neutral element comes first.
    """
    dtypes = [np.float32, np.float64] if op == "logcumsumexp" else [np.float32, np.int32, np.int64, np.uint8, np.int8]
    for axis in range(3):
        attrs = {"axis": axis, "exclusive": exclusive, "reverse": axis == 1}
        for dtype in dtypes:
            x = np.random.default_rng(2).integers(1, 5, (3, 7, 37)).astype(dtype)
            if np.dtype(dtype).kind == "f":
                x = x / dtype(2.5)
            SingleNode(op, [x], attrs).check(target, tolerance=1e-5)
    SingleNode(op, [np.zeros((3, 0), np.float32)], {**attrs, "axis": 1}).check(target)


@pytest.mark.parametrize("op", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
def test_numbers_that_are_not_finite_go_on(target: Target, op: str) -> None:
    """
    NaN reaches all later results; infinities of one sign stay what they are.
    """
    x = np.random.default_rng(4).standard_normal((5, 20)).astype(np.float32)
    x[0, 3], x[1, 5], x[2, 5], x[3, :2], x[4, 4:9] = np.nan, np.inf, -np.inf, -np.inf, [1, np.inf, 2, np.inf, 100]
    for axis in (0, 1):
        SingleNode(op, [x], {"axis": axis, "exclusive": False, "reverse": False}).check(target, tolerance=1e-5)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, np.uint32])
def test_the_first_elements_are_found_in_order(target: Target, largest: bool, dtype: Any) -> None:
    """
    None of a row, one, some, all of it; on every axis, with ties and NaN.
    """
    generator = np.random.default_rng(3)
    attrs = {"largest": largest, "sorted": True}
    for shape in ((3, 1, 5), (2, 37, 19), (1, 16, 33)):
        x = generator.integers(-20, 20, shape).astype(dtype)
        if x.dtype.kind == "f":
            x[generator.random(shape) < 0.05] = np.nan
        for axis in range(3):
            for count in {0, 1, shape[axis] // 2, shape[axis]}:
                node = SingleNode("top_k", [x, np.array(count)], {"axis": axis, **attrs}, constants=(1,), outputs=2)
                node.check(target)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64])
def test_triangles_are_cut_at_any_diagonal(target: Target, upper: bool, dtype: Any) -> None:
    """
    Diagonals inside and far outside the matrix, batches of oblong matrices.
    """
    x = np.ones((2, 5, 40), dtype)
    for diagonal in (-100, -5, -2, 0, 3, 39, 40, 100):
        SingleNode("trilu", [x, np.array(diagonal)], {"upper": upper}, constants=(1,)).check(target)
    SingleNode("trilu", [x], {"upper": upper}).check(target)
