"""Pools and normalisations by powers of elements, and weights in float8: kernels only, by formulas."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
from tests.models.contrib import Array, OneNode, close, some

X = some(2, 3, 4, 6)
X[0, :, 1] = 0
SIZES = np.abs(X.astype(np.float64))


def windows(power: float) -> Array:
    padded = np.pad(SIZES, ((0, 0), (0, 0), (1, 0), (0, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (2, 3))[:, :, ::2]
    return np.asarray((seen**power).sum(axis=(-1, -2)) ** (1 / power))


def divided(norm: Array) -> Array:
    return np.asarray(np.divide(X, norm, out=np.zeros(X.shape), where=norm != 0))


def centred(*axes: int) -> Array:
    apart = X - X.mean(axis=axes, keepdims=True, dtype=np.float64)
    return np.asarray(apart / (np.sqrt((apart**2).mean(axis=axes, keepdims=True)) + 1e-9))


def response(size: int) -> Array:
    squares = np.pad(SIZES**2, ((0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)))
    total = np.lib.stride_tricks.sliding_window_view(squares, size, 1).sum(axis=-1)
    return np.asarray(X / (2 + 0.5 / size * total) ** 0.75)


POOL = {"kernel_shape": [2, 3], "pads": [1, 0, 0, 1], "strides": [2, 1]}
CASES = [
    ("GlobalLpPool", {}, np.sqrt((SIZES**2).sum(axis=(2, 3), keepdims=True))),
    ("GlobalLpPool", {"p": 3}, np.cbrt((SIZES**3).sum(axis=(2, 3), keepdims=True))),
    ("LRN", {"size": 3, "alpha": 0.5, "bias": 2.0}, response(3)),
    ("LRN", {"size": 5, "alpha": 0.5, "bias": 2.0}, response(5)),
    ("LpNormalization", {}, divided(np.sqrt((SIZES**2).sum(axis=-1, keepdims=True)))),
    ("LpNormalization", {"axis": 1, "p": 1}, divided(SIZES.sum(axis=1, keepdims=True))),
    ("LpPool", POOL, windows(2)),
    ("LpPool", POOL | {"p": 1}, windows(1)),
    ("LpPool", POOL | {"p": 3}, windows(3)),
    ("MeanVarianceNormalization", {}, centred(0, 2, 3)),
    ("MeanVarianceNormalization", {"axes": [0, 1, 2, 3]}, centred(0, 1, 2, 3)),
]


@pytest.mark.parametrize(("op", "attributes", "wanted"), CASES, ids=[f"{op}-{at}" for at, (op, *_) in enumerate(CASES)])
@pytest.mark.parametrize("is_open", [False, True])
def test_operators_compute_what_they_say(op: str, attributes: dict[str, Any], wanted: Array, is_open: bool) -> None:
    node = OneNode(op, {"x": X}, attributes=attributes, domain="", opset=18)

    close(node.run(is_open=is_open), [wanted], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("op", "attributes", "wanted"), CASES, ids=[f"{op}-{at}" for at, (op, *_) in enumerate(CASES)])
def test_onnxruntime_does_the_same(op: str, attributes: dict[str, Any], wanted: Array) -> None:
    node = OneNode(op, {"x": X}, attributes=attributes, domain="", opset=18)

    close(node.run_by_onnxruntime(), [wanted], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", ["Cast", "DequantizeLinear"])
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_weights_in_float8_are_widened_once(how: str, dtype: Any) -> None:
    """They are numbers of the product by the first run; nothing runs in Python."""
    weights = some(6, 5).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    held = [helper.make_tensor("w", kind, [6, 5], weights.tobytes(), raw=True)]
    held.append(helper.make_tensor("s", TensorProto.FLOAT, [], [0.5]))
    wide = helper.make_node(
        how, ["w"] if how == "Cast" else ["w", "s"], ["wide"], **({"to": 1} if how == "Cast" else {})
    )
    takes = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 6])]
    nodes = [wide, helper.make_node("MatMul", ["x", "wide"], ["y"])]
    graph = helper.make_graph(nodes, "g", takes, [onnx.ValueInfoProto(name="y")], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session, x = treadle.Session(made.SerializeToString()), some(3, 6)
    found = session.run({"x": x})["y"]

    assert [call.op for plan in session.plans() for call in plan.calls] == ["matmul"]
    scale = 1.0 if how == "Cast" else 0.5
    np.testing.assert_allclose(found, x @ (weights.astype(np.float32) * scale), rtol=1e-5, atol=1e-5)
