"""float16 behind sizes that depend on data: it is computed there as in front of them, and may decide such sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import treadle
from tests.models.small import ModelWriter, node
from tests.models.test_data_loops import INT64, assert_in_the_run, body

HALF = TensorProto.FLOAT16
WIDTH = 8
X = np.random.default_rng(11).standard_normal((9, WIDTH)).astype(np.float16)


def halves(w: ModelWriter, *shape: int) -> str:
    """Returns the name of a constant of these sizes."""
    numbers = np.random.default_rng(len(w.nodes)).standard_normal(shape) / WIDTH
    return w.constant(numbers.astype(np.float16))


def chosen_rows(w: ModelWriter) -> str:
    """Returns the rows of x whose largest number is above 1, in order."""
    largest = w.op("ReduceMax", "x", axes=[1], keepdims=0)
    places = w.op("NonZero", w.op("Greater", largest, w.constant(np.float16(1))))
    return w.op("Gather", "x", w.op("Squeeze", places, w.constant(np.array([0]))), axis=0)


def found(w: ModelWriter) -> str:
    product = w.op("MatMul", chosen_rows(w), halves(w, WIDTH, WIDTH))
    return w.op("Softmax", w.op("Add", product, halves(w, WIDTH)), axis=-1)


def normalised(w: ModelWriter) -> str:
    ones = w.constant(np.ones(WIDTH, np.float16))
    rows = w.op("LayerNormalization", chosen_rows(w), ones, halves(w, WIDTH), axis=-1)
    return w.op("ReduceMean", w.op("Tanh", rows), axes=[1], keepdims=1)


def best(w: ModelWriter) -> str:
    """Returns the negatives of as many of the largest numbers of each row as a float16 says."""
    count = w.op("Cast", w.op("Abs", w.op("ReduceMin", "x", keepdims=0)), to=INT64)
    first = w.op("Add", w.op("Reshape", count, w.constant(np.array([1]))), w.constant(np.array([1])))
    return w.op("Neg", w.op("TopK", "x", first, axis=1, outputs=2))


def repeated(w: ModelWriter) -> str:
    """Returns the result of a loop on the chosen rows, which appends their mean three times."""
    nodes = [
        node("Identity", ["on"], "again"),
        node("ReduceMean", ["s"], "mean", axes=[0], keepdims=1),
        node("Concat", ["s", "mean"], "next", axis=0),
    ]
    return w.op("Loop", w.constant(np.array(3)), "", chosen_rows(w), body=body(nodes, {"s": HALF}, "next"))


MODELS: dict[str, Callable[[ModelWriter], str]] = {
    "a product": found, "a norm": normalised, "a number": best, "a loop": repeated
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_halves_behind_a_stage(name: str) -> None:
    """They agree with what ONNX Runtime gives, within the precision of float16."""
    ort = pytest.importorskip("onnxruntime")
    w = ModelWriter()
    y = MODELS[name](w)
    model: onnx.ModelProto = w.model({"x": (HALF, [9, WIDTH])}, {y: (HALF, None)})
    session = treadle.Session(model)
    reference = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for x in (X, X[::-1].copy(), (X * np.float16(0.75)).copy()):
        (result,) = session.run({"x": x}).values()
        (wanted,) = reference.run(None, {"x": x})
        assert (result.shape, result.dtype) == (wanted.shape, np.float16)
        np.testing.assert_allclose(result.astype(np.float32), wanted.astype(np.float32), rtol=4e-3, atol=4e-3)
    assert_in_the_run(session)
