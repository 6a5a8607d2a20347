"""Runs end, and branches and loops run, inside the stages behind sizes that depend on data."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.small import FLOAT, ModelWriter
from treadle.errors import RunCancelledError, RunTimeoutError

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def slow_rows(width: int = 1000, layers: int = 200) -> onnx.ModelProto:
    """Layers on chosen rows of x: seconds of work if all rows are chosen."""
    w = ModelWriter()
    y = w.op("Gather", "x", w.op("Squeeze", w.op("NonZero", "keep"), w.constant(np.array([0]))))
    weights = w.random(width, width)
    for _ in range(layers):
        y = w.op("MatMul", y, weights)
    return w.model({"x": (FLOAT, [width, width]), "keep": (BOOL, [width])}, {y: (FLOAT, ["kept", width])})


def test_a_run_ends_inside_a_stage() -> None:
    """By its timeout, and when it is cancelled. The session may be used again."""
    session = treadle.Session(slow_rows())
    x = np.zeros((1000, 1000), np.float32)
    few = {"x": x, "keep": np.arange(1000) < 3}
    (wanted,) = session.run(few).values()  # compiles
    slow = {"x": x, "keep": np.ones(1000, bool)}
    with pytest.raises(RunTimeoutError):
        session.run(slow, timeout=0.05)
    token = treadle.CancelToken()
    future = session.run_async(slow, cancel=token)
    time.sleep(0.02)
    token.cancel()
    with pytest.raises(RunCancelledError):
        future.result()

    (again,) = session.run(few).values()
    np.testing.assert_array_equal(again, wanted)


def choosing(result: str) -> onnx.GraphProto:
    """A body that keeps the positive numbers of x."""
    axis = numpy_helper.from_array(np.array([0]), "axis")
    nodes = [
        helper.make_node("NonZero", ["above"], ["places"], name="find"),
        helper.make_node("Squeeze", ["places", "axis"], ["flat"], name="flatten"),
        helper.make_node("Gather", ["x", "flat"], ["kept"], name="pick"),
        helper.make_node("ReduceSum", ["kept"], [result], name="sum", keepdims=0),
    ]
    return helper.make_graph(nodes, "body", [], [helper.make_empty_tensor_value_info(result)], [axis])


def run_both(model: onnx.ModelProto, *feeds: Mapping[str, np.ndarray]) -> None:
    for threads in (1, 2):
        session = treadle.Session(model, intra_op=threads, inter_op=threads)
        for given in feeds:
            wanted = ReferenceEvaluator(model).run(None, dict(given))
            for got, array in zip(session.run(dict(given)).values(), wanted, strict=True):
                assert (got.shape, got.dtype) == (array.shape, array.dtype)
                np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-6)


def test_a_branch_has_sizes_that_depend_on_data() -> None:
    """The number of elements is found in the body that is taken."""
    w = ModelWriter()
    above = w.op("Cast", w.op("Greater", "x", w.constant(np.float32(0))), to=INT64)
    w.nodes.append(helper.make_node("Identity", [above], ["above"], name="above"))
    none = helper.make_node("ReduceSum", ["x"], ["all"], name="all", keepdims=0)
    other = helper.make_graph([none], "other", [], [helper.make_empty_tensor_value_info("all")])
    y = w.op("If", "a", then_branch=choosing("chosen"), else_branch=other)
    model = w.model({"x": (FLOAT, [12]), "a": (BOOL, [])}, {w.op("Neg", y): (FLOAT, [])})
    x = np.random.default_rng(0).standard_normal(12).astype(np.float32)
    run_both(model, *({"x": sign * x, "a": np.array(a)} for sign in (1, -1) for a in (True, False)))
