"""Models that `quantize_dynamic` writes: kernels only, whatever is known of shapes, and ONNX Runtime's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from tests.models.contrib import Array, OneNode, close, some
from tests.models.contrib_formulas import attention, excluded, heads

W = np.random.default_rng(1).integers(-60, 60, (24, 16)).astype(np.int8)
"""Of 7 bits: ONNX Runtime's sums of larger weights saturate on CPUs without VNNI."""

STEPS = np.linspace(0.005, 0.01, 16, dtype=np.float32)
BIAS = some(16, seed=3)


def quantized(x: Array) -> tuple[Array, np.float32, int]:
    """`x` as u8, the scale and the zero point, as the standard says."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    scale = np.float32((np.float32(high) - np.float32(low)) / np.float32(255))
    zero = int(np.clip(np.rint(-np.float32(low) / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64), scale, zero


def multiplied(x: Array, scale: Array, zero: Any = 0) -> Array:
    whole, step, offset = quantized(x)
    return np.asarray(((whole - offset) @ (W.astype(np.int64) - zero)) * (np.float64(step) * scale))


X = some(2, 5, 24)
ZEROS = np.arange(16, dtype=np.int8) - 8
PRODUCTS = [
    pytest.param({"x": X, "w": W, "s": STEPS[:1].reshape(())}, multiplied(X, STEPS[:1]), id="one_scale"),
    pytest.param({"x": X, "w": W, "s": STEPS, "z": ZEROS}, multiplied(X, STEPS, ZEROS), id="a_scale_each_column"),
    pytest.param(
        {"x": X, "w": W, "s": STEPS, "z": None, "b": BIAS}, multiplied(X, STEPS) + BIAS.astype(np.float64), id="bias"
    ),
]


@pytest.mark.parametrize(("operands", "wanted"), PRODUCTS)
@pytest.mark.parametrize("is_open", [False, True])
def test_dynamic_products_are_exact_sums(operands: dict[str, Array | None], wanted: Array, is_open: bool) -> None:
    held = frozenset(name for name, array in operands.items() if name != "x" and array is not None)
    node = OneNode("DynamicQuantizeMatMul", operands, held)

    close(node.run(is_open=is_open), [wanted], atol=1e-4)
    if not is_open:
        close(node.run_by_onnxruntime(), [wanted], atol=1e-4)


TOKENS, WEIGHTS = np.random.default_rng(2).integers(0, 256, (2, 5, 24)).astype(np.uint8), np.tile(W, (1, 3))[:, :36]
SCALE, ZERO, EACH = np.float32(0.02), np.array(120, np.uint8), np.linspace(0.002, 0.004, 36, dtype=np.float32)
MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)


@pytest.mark.parametrize("per_column", [False, True])
def test_quantized_attention_projects_by_exact_sums(per_column: bool) -> None:
    scale = EACH if per_column else EACH[:1].reshape(())
    bias = some(36, seed=4)
    operands = {"x": TOKENS, "w": WEIGHTS, "b": bias, "xs": np.asarray(SCALE), "ws": scale, "mask": MASK, "xz": ZERO}
    node = OneNode("QAttention", operands, frozenset(["w", "b", "xs", "ws", "xz"]), attributes={"num_heads": 3})
    sums = (TOKENS.astype(np.int64) - 120) @ WEIGHTS.astype(np.int64)
    projected = sums * (np.float64(SCALE) * scale) + bias
    q, k, v = (heads(part, 3) for part in np.split(projected, 3, axis=-1))
    wanted = attention(q, k, v, excluded(MASK[:, None, None]))

    close(node.run(), [wanted], rtol=1e-4)
    close(node.run(is_open=True), [wanted], rtol=1e-4)
    close(node.run_by_onnxruntime(), [wanted], rtol=1e-4)


def dynamic_chain(before: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto]) -> bytes:
    """`before`, which makes `h`, and the nodes of a dynamically quantized product with W."""
    nodes = [
        *before,
        helper.make_node("DynamicQuantizeLinear", ["h"], ["q", "step", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["step", "s"], ["factor"]),
        helper.make_node("Mul", ["real", "factor"], ["y"]),
    ]
    held = [numpy_helper.from_array(W, "w"), numpy_helper.from_array(STEPS, "s")]
    held.append(numpy_helper.from_array(some(9, 24, seed=5), "table"))
    gives = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, gives, held)
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )


def takes(name: str, kind: int, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
UNKNOWN = {
    "reshaped_to_an_input": (
        [helper.make_node("Reshape", ["x", "shape"], ["h"])],
        [takes("x", FLOAT, "a", "b"), takes("shape", INT64, 3)],
        {"x": some(10, 24), "shape": np.array([2, 5, 24])},
        some(10, 24).reshape(2, 5, 24),
    ),
    "of_unknown_rank": (
        [helper.make_node("Reshape", ["x", "shape"], ["h"])],
        [takes("x", FLOAT, "a", "b"), takes("shape", INT64, "n")],
        {"x": some(10, 24), "shape": np.array([2, 5, 24])},
        some(10, 24).reshape(2, 5, 24),
    ),
    "gathered": (
        [
            helper.make_node("GatherElements", ["ids", "places"], ["picked"], axis=1),
            helper.make_node("Gather", ["table", "picked"], ["h"]),
        ],
        [takes("ids", INT64, "n", "m"), takes("places", INT64, "n", "k")],
        {"ids": np.array([[1, 8, 3], [0, 2, 7]]), "places": np.array([[2, 0], [1, 1]])},
        some(9, 24, seed=5)[np.array([[3, 1], [2, 2]])],
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_zero_points_are_numbers_whatever_is_quantized(name: str) -> None:
    before, inputs, fed, x = UNKNOWN[name]
    session = treadle.Session(dynamic_chain(before, inputs))

    (found,) = session.run(fed).values()

    np.testing.assert_allclose(found, multiplied(x, STEPS), rtol=1e-5, atol=1e-4)
    calls = [call for plan in session.plans() for call in plan.calls]
    assert calls
    assert [call.op for call in calls if call.function is not None] == []


def test_what_onnxruntime_quantizes_runs_by_kernels_beside_it(tmp_path: Path) -> None:
    """An encoder layer with open sizes, its weights quantized by `onnxruntime.quantization.quantize_dynamic`."""
    runtime = pytest.importorskip("onnxruntime")
    quantization = pytest.importorskip("onnxruntime.quantization")
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        *(helper.make_node("MatMul", ["x", f"w{part}"], [part]) for part in "qkv"),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "v"], ["mixed"]),
        helper.make_node("MatMul", ["mixed", "wo"], ["y"]),
    ]
    held = [numpy_helper.from_array(some(9, 24, seed=5), "table")]
    held += [numpy_helper.from_array(some(24, 24, seed=part) / 5, f"w{name}") for part, name in enumerate("qkvo")]
    graph = helper.make_graph(
        nodes, "g", [takes("ids", INT64, "n", "m")], [helper.make_tensor_value_info("y", FLOAT, None)], held
    )
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(whole, tmp_path / "whole.onnx")
    quantization.quantize_dynamic(tmp_path / "whole.onnx", tmp_path / "small.onnx", reduce_range=True)
    content, ids = (tmp_path / "small.onnx").read_bytes(), np.array([[1, 8, 3, 4], [0, 2, 7, 1]])
    assert b"MatMulInteger" in content

    session = treadle.Session(content)
    (found,) = session.run({"ids": ids}).values()

    (wanted,) = runtime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"ids": ids})
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())
    assert [call.op for plan in session.plans() for call in plan.calls if call.function is not None] == []
