"""Ops that the onnx package's reference computes, between ops with kernels, on open sizes: one plan, kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.small import FLOAT, ModelWriter

Array = np.ndarray[Any, Any]


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def size(w: ModelWriter, of: str, axis: int, more: int = 0) -> str:
    """The size of an axis as a vector of one element."""
    found = w.op("Gather", w.op("Shape", of), w.constant(ints(axis)))
    return w.op("Add", found, w.constant(ints(more))) if more else found


def image_of_columns(w: ModelWriter) -> str:
    columns = w.op("Mul", size(w, "x", 0), size(w, "x", 1))
    shape = w.op("Concat", size(w, "t", 0), w.constant(ints(4)), columns, axis=0)
    image = w.op("Concat", size(w, "x", 0, 1), size(w, "x", 1, 1), axis=0)
    return w.op("Col2Im", w.op("Expand", w.constant(floats(1, 1, 1)), shape), image, w.constant(ints(2, 2)))


def deformed(w: ModelWriter) -> str:
    offsets = [w.op("Concat", *["x"] * 6, axis=1), *(w.constant(ints(*each)) for each in ((0, 1, 1), (18, -1, -1)))]
    offsets = w.op("Slice", *offsets, w.constant(ints(1, 2, 3)))
    return w.op("DeformConv", "x", w.random(2, 3, 3, 3), w.op("Mul", offsets, w.constant(np.float32(0.1))))


def mel(w: ModelWriter) -> str:
    numbers = (np.int64(8), np.int64(64), np.int64(8000), np.float32(10), np.float32(3000))
    weights = w.op("MelWeightMatrix", *map(w.constant, numbers))
    return w.op("Add", weights, w.op("ReduceSum", "x", keepdims=0))


def window(op: str) -> Callable[[ModelWriter], str]:
    return lambda w: w.op("Mul", "x", w.op(op, w.op("Squeeze", size(w, "x", 0))))


MODELS: dict[str, tuple[Callable[[ModelWriter], str], dict[str, list[str | int]]]] = {
    "AffineGrid": (
        lambda w: w.op(
            "AffineGrid",
            "t",
            w.op("Concat", size(w, "t", 0), w.constant(ints(3)), size(w, "x", 0), size(w, "x", 1), axis=0),
        ),
        {"t": ["n", 2, 3], "x": ["h", "w"]},
    ),
    "CenterCropPad": (
        lambda w: w.op("CenterCropPad", "t", w.op("Concat", size(w, "x", 0), size(w, "x", 1), axis=0), axes=[0, 1]),
        {"t": ["a", "b", 3], "x": ["h", "w"]},
    ),
    "Col2Im": (image_of_columns, {"t": ["n"], "x": ["h", "w"]}),
    "DeformConv": (deformed, {"x": ["n", 3, "h", "w"]}),
    "Det": (lambda w: w.op("Det", "x"), {"x": ["n", 3, 3]}),
    "MelWeightMatrix": (mel, {"x": ["n"]}),
    **{op: (window(op), {"x": ["n"]}) for op in ("BlackmanWindow", "HammingWindow", "HannWindow")},
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path))
    monkeypatch.delenv("TREADLE_DEBUG", raising=False)


@pytest.mark.parametrize("op", MODELS)
def test_results_of_the_reference_have_known_sizes(op: str) -> None:
    """
    One plan for all sizes, which a later session has from disk.
    """
    build, inputs = MODELS[op]
    w = ModelWriter()
    y = w.op("Relu", build(w))
    model = w.model({name: (FLOAT, shape) for name, shape in inputs.items()}, {y: (FLOAT, None)}, opset=20)
    reference = ReferenceEvaluator(model)
    for compiles in (1, 0):
        session = treadle.Session(model.SerializeToString())
        for first in (5, 8, 4):
            following = count(first)
            sizes: dict[str | int, int] = {}
            given = {
                name: floats(*(dim if isinstance(dim, int) else sizes.setdefault(dim, next(following)) for dim in dims))
                for name, dims in inputs.items()
            }
            (found,), (wanted,) = session.run(given).values(), reference.run(None, dict(given))
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        assert session.compiles == compiles
