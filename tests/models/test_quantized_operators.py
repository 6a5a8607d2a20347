"""ONNX Runtime's operators for quantized tensors (com.microsoft), and pooling of 8-bit numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from tests.models.test_quantized import KINDS, Array, run, some

SCALE, Y_SCALE = np.float32(0.04), np.float32(0.07)


def model(node: onnx.NodeProto, inputs: Mapping[str, Array], gives: int, **constants: Any) -> bytes:
    """One node of com.microsoft (or of ONNX) whose result has the ONNX element type `gives`."""
    takes = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", takes, [helper.make_tensor_value_info("y", gives, None)], held)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=domains, ir_version=8).SerializeToString())


def node(op: str, *inputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs, ["y"], domain="com.microsoft", **attributes)


def real(x: Array, scale: Any, zero: Any) -> Array:
    return np.asarray((x.astype(np.float64) - np.asarray(zero, np.float64)) * np.asarray(scale, np.float64))


def close(found: Array, wanted: Array, zero: Array) -> None:
    """`found` is `wanted` in steps of Y_SCALE, saturated; a number near a half may be rounded either way."""
    limits = np.iinfo(zero.dtype)
    steps = np.clip(np.rint(wanted / Y_SCALE) + int(zero), limits.min, limits.max)
    assert found.dtype == zero.dtype
    assert np.abs(found - steps).max() <= 1
    assert (found != steps).mean() < 0.01


ONE: dict[str, tuple[dict[str, Any], Callable[[Array], Array]]] = {
    "QLinearSigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))),
    "QLinearLeakyRelu": ({"alpha": 0.3}, lambda x: np.where(x < 0, np.float32(0.3) * x, x)),
    "QLinearGlobalAveragePool": ({}, lambda x: x.mean(axis=(2, 3), keepdims=True)),
    "QLinearSoftmax": (
        {"axis": -1, "opset": 13},
        lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True),
    ),
    "QLinearAveragePool": (
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        lambda x: x.reshape(2, 5, 3, 2, 4, 2).mean(axis=(3, 5)),
    ),
}


@pytest.mark.parametrize("taken", KINDS)
@pytest.mark.parametrize("op", ONE)
def test_operators_of_one_quantized_tensor_round_their_result(op: str, taken: str) -> None:
    dtype, number = KINDS[taken]
    attributes, formula = ONE[op]
    x, zero, y_zero = some((2, 5, 6, 8), dtype), np.array(20, dtype), np.array(30, dtype)
    content = model(
        node(op, "x", "s", "z", "ys", "yz", **attributes), {"x": x}, number, s=SCALE, z=zero, ys=Y_SCALE, yz=y_zero
    )

    close(run(content, {"x": x})["y"], formula(real(x, SCALE, zero)), y_zero)


@pytest.mark.parametrize("taken", KINDS)
@pytest.mark.parametrize(("op", "formula"), [("QLinearAdd", np.add), ("QLinearMul", np.multiply)])
def test_operators_of_two_quantized_tensors_broadcast(op: str, formula: np.ufunc, taken: str) -> None:
    dtype, number = KINDS[taken]
    left, right = some((3, 4, 5), dtype), some((4, 1), dtype, 1)
    a_zero, b_zero, y_zero = (np.array(zero, dtype) for zero in (3, 100, 40))
    held = {"as": SCALE, "az": a_zero, "bs": np.float32(0.02), "bz": b_zero, "ys": Y_SCALE, "yz": y_zero}
    inputs = {"a": left, "b": right}
    content = model(node(op, "a", "as", "az", "b", "bs", "bz", "ys", "yz"), inputs, number, **held)

    wanted = formula(real(left, SCALE, a_zero), real(right, np.float32(0.02), b_zero))

    close(run(content, inputs)["y"], wanted, y_zero)


def test_concat_copies_tensors_of_the_same_scale() -> None:
    first, second = some((2, 3), np.uint8), some((2, 2), np.uint8, 1)
    zero, other = np.array(9, np.uint8), np.array(50, np.uint8)
    held = {"ys": Y_SCALE, "yz": zero, "bs": np.float32(0.05), "bz": other}
    inputs = {"a": first, "b": second}
    one = node("QLinearConcat", "ys", "yz", "a", "ys", "yz", "b", "bs", "bz", axis=1)

    found = run(model(one, inputs, TensorProto.UINT8, **held), inputs)["y"]

    np.testing.assert_array_equal(found[:, :3], first)
    close(found[:, 3:], real(second, np.float32(0.05), other), zero)


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_qgemm_adds_a_bias_in_steps_of_both_scales(transposed: bool, rounds: bool, per_column: bool) -> None:
    rng = np.random.default_rng(0)
    a, w = some((5, 24), np.uint8), some((10, 24) if transposed else (24, 10), np.int8, 1)
    w_scale = (rng.random(10 if per_column else ()) * 0.002 + 0.0005).astype(np.float32)
    a_zero, y_zero, bias = np.array(99, np.uint8), np.array(130, np.uint8), rng.integers(-900, 900, 10)
    held = {"as": SCALE, "az": a_zero, "w": w, "ws": w_scale, "wz": np.zeros(w_scale.shape, np.int8)}
    held |= {"c": bias.astype(np.int32), "ys": Y_SCALE, "yz": y_zero}
    names = ["a", "as", "az", "w", "ws", "wz", "c", *(["ys", "yz"] if rounds else [])]
    if not rounds:
        held = {name: array for name, array in held.items() if name not in ("ys", "yz")}
    one = node("QGemm", *names, transB=int(transposed))
    content = model(one, {"a": a}, TensorProto.UINT8 if rounds else TensorProto.FLOAT, **held)

    found = run(content, {"a": a})["y"]

    sums = (a.astype(np.int64) - 99) @ (w.T if transposed else w).astype(np.int64) + bias
    wanted = sums * (np.float64(SCALE) * w_scale.astype(np.float64))
    if rounds:
        close(found, wanted, y_zero)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_matmul_integer_to_float_scales_exact_sums() -> None:
    a, w = some((3, 7, 32), np.uint8), some((32, 12), np.int8, 1)
    scale, bias = np.linspace(0.1, 0.2, 12, dtype=np.float32), np.arange(12, dtype=np.float32)
    held = {"w": w, "as": SCALE, "ws": scale, "az": np.array(7, np.uint8), "bias": bias}
    one = node("MatMulIntegerToFloat", "a", "w", "as", "ws", "az", "", "bias")

    found = run(model(one, {"a": a}, TensorProto.FLOAT, **held), {"a": a})["y"]

    wanted = ((a.astype(np.int64) - 7) @ w.astype(np.int64)) * (np.float64(SCALE) * scale) + bias
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("taken", KINDS)
def test_max_pools_of_bytes_have_a_kernel(taken: str) -> None:
    dtype, number = KINDS[taken]
    x = some((2, 5, 6, 8), dtype)
    one = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])

    found = run(model(one, {"x": x}, number), {"x": x})["y"]

    np.testing.assert_array_equal(found, x.reshape(2, 5, 3, 2, 4, 2).max(axis=(3, 5)))


def test_other_operators_of_com_microsoft_are_refused_by_name() -> None:
    x = np.zeros((2, 2), np.float32)

    with pytest.raises(treadle.errors.TreadleError, match=r"FusedThing.*com\.microsoft"):
        treadle.Session(model(node("FusedThing", "x"), {"x": x}, TensorProto.FLOAT))


def test_a_scale_that_is_not_one_number_is_refused() -> None:
    x = some((2, 3), np.uint8)
    content = model(
        node("QLinearSigmoid", "x", "s", "", "s", name="odd"), {"x": x}, TensorProto.UINT8, s=np.ones(3, np.float32)
    )

    with pytest.raises(treadle.errors.TreadleError, match=r"odd.*its input number 1 must have one element"):
        treadle.Session(content)
