"""Unique gives what the onnx package's reference gives, in one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.small import FLOAT, ModelWriter

INT64, INT32 = onnx.TensorProto.INT64, onnx.TensorProto.INT32
DTYPES = {FLOAT: np.float32, INT64: np.int64, INT32: np.int32}


def unique(dtype: int, shape: list[Any], **attrs: int) -> onnx.ModelProto:
    """Unique with all results, and a computation on what it finds."""
    w = ModelWriter()
    y = w.op("Unique", "x", outputs=4, **attrs)
    outputs: dict[str, tuple[int, list[Any] | None]] = {y: (dtype, None)}
    outputs |= {f"{y}_{number}": (INT64, None) for number in (1, 2, 3)}
    outputs[w.op("Mul", y, y)] = (dtype, None)
    return w.model({"x": (dtype, shape)}, outputs)


def numbers(dtype: int, count: int, different: int, seed: int = 0) -> np.ndarray:
    """Numbers of which there are at most so many different ones."""
    return np.random.default_rng(seed).integers(-different // 2, different // 2 + 1, count).astype(DTYPES[dtype])


def run_both(model: onnx.ModelProto, *feeds: Mapping[str, np.ndarray]) -> treadle.Session:
    """Assert that a session gives what the reference gives, on one thread and on several."""
    for threads in (1, 3):
        session = treadle.Session(model, intra_op=threads, inter_op=threads)
        for given in feeds:
            results = session.run(dict(given)).values()
            for got, wanted in zip(results, ReferenceEvaluator(model).run(None, dict(given)), strict=True):
                assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
                np.testing.assert_array_equal(got, wanted)
    return session


@pytest.mark.parametrize("is_sorted", [1, 0])
@pytest.mark.parametrize("dtype", [FLOAT, INT64, INT32])
def test_elements_are_found_once(dtype: int, is_sorted: int) -> None:
    """In ascending order or in that of x: all different, all equal, some equal; what follows is compiled once."""
    shape = [4, 6] if is_sorted else [24]  # the reference takes the rows of matrices if it does not sort
    model = unique(dtype, shape, sorted=is_sorted)
    feeds = [numbers(dtype, 24, different, different).reshape(shape) for different in (6, 3, 100, 8)]
    session = run_both(model, *({"x": x} for x in (*feeds, np.full(shape, 3, DTYPES[dtype]))))

    assert all(call.function is None for plan in session.plans() for call in plan.calls)
    before = session.compiles
    session.run({"x": numbers(dtype, 24, 11, 7).reshape(shape)})
    assert session.compiles == before


def test_open_sizes_have_one_plan() -> None:
    """Also an input without elements."""
    model = unique(FLOAT, ["n"], axis=0)
    session = run_both(model, *({"x": numbers(FLOAT, count, 9)} for count in (5, 12, 40, 1)))
    before = session.compiles
    session.run({"x": numbers(FLOAT, 33, 20)})
    assert session.compiles == before
    assert [array.shape for array in session.run({"x": np.zeros(0, np.float32)}).values()] == [(0,)] * 5


def test_rows_are_found_by_the_reference() -> None:
    """Along an axis of several."""
    model = unique(INT64, [6, 2], axis=0)
    run_both(model, {"x": numbers(INT64, 12, 3).reshape(6, 2)})


def test_numbers_that_are_none_are_one() -> None:
    """NaN is equal to NaN, and comes last."""
    x = np.array([3, np.nan, 1, np.nan, 3, -np.inf], np.float32)
    run_both(unique(FLOAT, [6]), {"x": x})
