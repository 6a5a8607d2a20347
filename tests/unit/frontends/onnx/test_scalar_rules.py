"""Operators of ONNX that are one core op, or a few, where numbers are tiny or infinite."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

import treadle
from treadle.frontends.onnx.importer import import_model
from treadle.frontends.onnx.reader import read

SMALL = np.float32([0, -0.0, 1e-10, -1e-10, 1e-40, -3e-5, 2e-3, -0.25])


def content(body: str, shape: str) -> bytes:
    """A model of opset 17 with the f32 input x of `shape`, as ONNX writes it, and the f32 output y[n]."""
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[{shape}] x) => (float[n] y) {{ {body} }}'
    return bytes(parser.parse_model(text).SerializeToString())


@pytest.mark.parametrize(("op", "truth"), [("Asinh", np.arcsinh), ("Atanh", np.arctanh), ("Acosh", np.arccosh)])
def test_inverses_of_hyperbolic_functions_are_one_core_op(op: str, truth: np.ufunc) -> None:
    """
    They have kernels, and of small numbers nothing is lost.
    """
    model = content(f"y = {op} (x)", "n")
    x = 1 - SMALL if op == "Acosh" else SMALL

    assert [node.op for node in import_model(read(model)).nodes] == [op.lower()]
    with np.errstate(invalid="ignore"):
        wanted = truth(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_max_ulp(treadle.Session(model).run({"x": x})["y"], wanted, 2)


def test_log_sum_exp_takes_infinities() -> None:
    """
    Of nothing but -inf it is -inf, beside +inf it is +inf; NaN stays NaN.
    """
    x = np.float32([[-np.inf] * 3, [np.inf, 1, -np.inf], [np.inf] * 3, [-np.inf, 2, 2], [np.nan, np.inf, 0]])
    wanted = np.float32([-np.inf, np.inf, np.inf, 2 + np.log(2), np.nan])

    found = treadle.Session(content("y = ReduceLogSumExp <axes = [1], keepdims = 0> (x)", "n, 3")).run({"x": x})["y"]

    np.testing.assert_allclose(found, wanted, rtol=3e-7)


def test_cross_entropy_of_certain_classes_is_finite() -> None:
    """
    A probability of 0 has no logarithm, but the difference of scores is the loss; the class left out weighs nothing.
    """
    scores = np.float32([[0, 1000, 3], [500, 0, 0], [1, 1, 1], [7, 0, -300]])
    labels = "long = Constant <value = int64[4] {0, 0, 2, 1}> ()"
    body = f'{labels} y = SoftmaxCrossEntropyLoss <reduction = "none", ignore_index = 2> (x, long)'

    found = treadle.Session(content(body, "4, 3")).run({"x": scores})["y"]

    np.testing.assert_allclose(found, [1000, 0, 0, 7.0009117], rtol=1e-6)
