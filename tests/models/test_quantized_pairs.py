"""Quantized ONNX models in QDQ format: DequantizeLinear, a product, QuantizeLinear."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.test_quantized import KINDS, Array, model, some
from treadle import dtypes
from treadle.plan.call import Call

X_SCALE, Y_SCALE = np.float32(0.021), np.float32(0.9)


def quantize(x: str, y: str, scale: str, zero: str, axis: int = 1) -> onnx.NodeProto:
    return helper.make_node("QuantizeLinear", [x, scale, zero], [y], axis=axis)


def dequantize(x: str, y: str, scale: str, zero: str, axis: int = 1) -> onnx.NodeProto:
    return helper.make_node("DequantizeLinear", [x, scale, zero], [y], axis=axis)


def products(session: treadle.Session) -> list[Call]:
    """Returns the convolutions and matrix products of a session's plan after checking that each step is a kernel."""
    (plan,) = session.plans()
    assert [call.op for call in plan.calls if call.spec is None] == []
    return [call for call in plan.calls if call.op in ("conv", "matmul")]


def reference(content: bytes, x: Array) -> Array:
    """Returns the output of ONNX's reference implementation."""
    (found,) = ReferenceEvaluator(onnx.load_from_string(content)).run(None, {"x": x})
    return np.asarray(found)


def within_a_step(content: bytes, x: Array, found: Array) -> None:
    """Asserts that at most a few numbers differ, by one step: the sums of ONNX's reference are rounded too."""
    apart = np.abs(found.astype(np.int64) - reference(content, x))
    assert apart.max() <= 1
    assert (apart > 0).mean() < 0.01


def conv_model(
    channels: int, outputs: int, kernel: int, groups: int, taken: str, *, per_channel: bool, zero: int | None = None
) -> tuple[bytes, Array]:
    """QuantizeLinear(Relu(Conv(x, w, bias))) of an f32 image that is first quantized with the zero point `zero`."""
    dtype, _ = KINDS[taken]
    if zero is None:
        zero = -5 if taken == "i8" else 121
    rng = np.random.default_rng(0)
    w = some((outputs, channels // groups, kernel, kernel), np.int8, 1)
    w_scale = (rng.random(outputs if per_channel else ()) * 0.01 + 0.001).astype(np.float32)
    held = {
        "xs": X_SCALE,
        "xz": np.array(zero, dtype),
        "w": w,
        "ws": w_scale,
        "wz": np.zeros(w_scale.shape, np.int8),
        "b": rng.integers(-9000, 9000, outputs).astype(np.int32),
        "bs": (X_SCALE * w_scale).astype(np.float32),
        "bz": np.zeros(w_scale.shape, np.int32),
        "ys": Y_SCALE,
        "yz": np.array(-128 if taken == "i8" else 0, dtype),
    }
    nodes = [
        quantize("x", "xq", "xs", "xz"),
        dequantize("xq", "xf", "xs", "xz"),
        dequantize("w", "wf", "ws", "wz", 0),
        dequantize("b", "bf", "bs", "bz", 0),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], pads=[kernel // 2] * 4, group=groups),
        helper.make_node("Relu", ["c"], ["r"]),
        quantize("r", "y", "ys", "yz"),
    ]
    x = rng.standard_normal((2, channels, 10, 9)).astype(np.float32)
    return model(nodes, {"x": x}, ["y"], **held), x


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("taken", KINDS)
@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "groups"), [(16, 32, 3, 1), (3, 16, 3, 1), (40, 24, 1, 1), (32, 32, 3, 32)]
)
def test_a_conv_between_quantized_tensors_multiplies_bytes(
    channels: int, outputs: int, kernel: int, groups: int, taken: str, per_channel: bool
) -> None:
    """
    The convolution reads and writes bytes; its epilogue has the ops in between.
    """
    content, x = conv_model(channels, outputs, kernel, groups, taken, per_channel=per_channel)
    session = treadle.Session(content)

    within_a_step(content, x, session.run({"x": x})["y"])

    *widening, conv = products(session)
    first = widening[0] if widening else conv
    assert len(widening) <= 1, "without VNNI, a call may make words of the bytes"
    assert first.reads[0].dtype in (dtypes.u8, dtypes.i8)
    assert conv.writes[0].dtype in (dtypes.u8, dtypes.i8)


def test_a_depthwise_conv_takes_the_least_zero_point() -> None:
    """
    -128, as after a Relu: the kernel reads the bytes as unsigned, with a zero point of 0.
    """
    content, x = conv_model(32, 32, 3, 32, "i8", per_channel=True, zero=-128)

    within_a_step(content, x, treadle.Session(content).run({"x": x})["y"])


def test_results_of_quantized_models_do_not_depend_on_threads() -> None:
    content, x = conv_model(64, 96, 3, 1, "i8", per_channel=True)
    session = treadle.Session(content)

    found = [session.run({"x": x}, intra_op=workers, inter_op=workers)["y"] for workers in (1, 2, 3)]

    assert all((each == found[0]).all() for each in found)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("taken", KINDS)
def test_a_gemm_between_quantized_tensors_multiplies_bytes(taken: str, transposed: bool) -> None:
    dtype, _ = KINDS[taken]
    rng = np.random.default_rng(0)
    w = some((20, 36) if transposed else (36, 20), np.int8, 1)
    held = {
        "xs": X_SCALE,
        "xz": np.array(9, dtype),
        "w": w,
        "ws": (rng.random(20) * 0.01 + 0.001).astype(np.float32),
        "wz": np.zeros(20, np.int8),
        "b": rng.standard_normal(20).astype(np.float32),
        "ys": np.float32(0.2),
        "yz": np.array(3, dtype),
    }
    nodes = [
        quantize("x", "xq", "xs", "xz"),
        dequantize("xq", "xf", "xs", "xz"),
        dequantize("w", "wf", "ws", "wz", 0 if transposed else 1),
        helper.make_node("Gemm", ["xf", "wf", "b"], ["g"], transB=int(transposed)),
        quantize("g", "y", "ys", "yz"),
    ]
    x = rng.standard_normal((7, 36)).astype(np.float32)
    content = model(nodes, {"x": x}, ["y"], **held)
    session = treadle.Session(content)

    within_a_step(content, x, session.run({"x": x})["y"])

    (product,) = products(session)
    assert product.reads[0].dtype in (dtypes.u8, dtypes.i8)


def test_a_residual_block_keeps_its_roundings() -> None:
    """
    Two convolutions with a residual connection from the input of the first; all tensors between have 8 bits.
    """
    rng = np.random.default_rng(0)
    held: dict[str, Array] = {"s": np.asarray(np.float32(0.03)), "z": np.array(-11, np.int8)}
    nodes = [quantize("x", "q0", "s", "z"), dequantize("q0", "f0", "s", "z")]
    for number in (1, 2):
        held[f"w{number}"] = some((32, 32, 3, 3), np.int8, number)
        held[f"ws{number}"] = (rng.random(32) * 0.002 + 0.0001).astype(np.float32)
        held[f"wz{number}"] = np.zeros(32, np.int8)
        nodes += [
            dequantize(f"w{number}", f"wf{number}", f"ws{number}", f"wz{number}", 0),
            helper.make_node("Conv", [f"f{number - 1}", f"wf{number}"], [f"c{number}"], pads=[1] * 4),
            quantize(f"c{number}", f"q{number}", "s", "z"),
            dequantize(f"q{number}", f"f{number}", "s", "z"),
        ]
    nodes += [helper.make_node("Add", ["f2", "f0"], ["sum"]), quantize("sum", "y", "s", "z")]
    x = rng.standard_normal((1, 32, 14, 14)).astype(np.float32)
    content = model(nodes, {"x": x}, ["y"], **held)
    session = treadle.Session(content)

    apart = np.abs(session.run({"x": x})["y"].astype(np.int64) - reference(content, x))

    assert apart.max() <= 2
    assert (apart > 0).mean() < 0.02
    calls = [call for call in products(session) if call.writes[0].dtype != dtypes.i16]
    assert len(calls) == 2, "other calls make words of bytes, without VNNI"
    assert products(session)[0].reads[0].dtype == dtypes.i8
    assert products(session)[0].reads[0] in calls[1].reads, "what is added is read as the bytes that it is"


def test_an_activation_between_quantized_tensors_is_read_from_a_table() -> None:
    """
    A function of one 8-bit tensor whose result has 8 bits becomes a table: here Gelu with a rounding in the middle.
    """
    held = {
        name: np.asarray(np.float32(value)) for name, value in {"s": 0.03, "es": 0.008, "h": 0.5, "r": 2**-0.5}.items()
    }
    nodes = [
        dequantize("x", "f", "s", "z"),
        helper.make_node("Mul", ["f", "r"], ["scaled"]),
        helper.make_node("Erf", ["scaled"], ["e"]),
        quantize("e", "eq", "es", "z"),
        dequantize("eq", "ef", "es", "z"),
        helper.make_node("Mul", ["ef", "f"], ["product"]),
        helper.make_node("Add", ["product", "f"], ["sum"]),
        helper.make_node("Mul", ["sum", "h"], ["g"]),
        quantize("g", "y", "s", "z"),
    ]
    x = np.arange(3 * 1001).astype(np.int8).reshape(3, 1001)
    content = model(nodes, {"x": x}, ["y"], z=np.array(-11, np.int8), **held)
    session = treadle.Session(content, math="exact")

    within_a_step(content, x, session.run({"x": x})["y"])

    (plan,) = session.plans()
    assert [call.spec.family for call in plan.calls if call.spec is not None] == ["byte_table"]


@pytest.mark.parametrize(
    "move",
    [
        helper.make_node("Flatten", ["f"], ["m"], axis=2),
        helper.make_node("Transpose", ["f"], ["m"], perm=[2, 0, 1]),
        helper.make_node("Identity", ["f"], ["m"]),
    ],
    ids=lambda node: node.op_type,
)
def test_ops_that_only_move_quantized_numbers_move_bytes(move: onnx.NodeProto) -> None:
    """
    Dequantizing, moving and quantizing with the same scale and zero point leaves the bytes as they were.
    """
    x = some((2, 3, 4), np.uint8)
    nodes = [dequantize("x", "f", "s", "z"), move, quantize("m", "y", "s", "z")]
    content = model(nodes, {"x": x}, ["y"], s=np.float32(0.1), z=np.array(77, np.uint8))
    session = treadle.Session(content)

    found = session.run({"x": x})["y"]

    np.testing.assert_array_equal(found, reference(content, x))
    (plan,) = session.plans()
    assert {value.dtype for call in plan.calls for value in (*call.reads, *call.writes)} <= {dtypes.u8}


@pytest.mark.parametrize(("axis", "transposed"), [(0, False), (1, True)])
def test_scales_along_the_sum_are_multiplied_as_f32(axis: int, transposed: bool) -> None:
    """
    Weights with a scale for each position along the sum cannot be scaled after it.
    """
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 8)).astype(np.float32), some((8, 8), np.int8)
    held = {"xs": X_SCALE, "xz": np.array(0, np.int8), "w": w, "ws": rng.random(8).astype(np.float32) + 0.5}
    held |= {"wz": np.zeros(8, np.int8)}
    nodes = [
        quantize("x", "xq", "xs", "xz"),
        dequantize("xq", "xf", "xs", "xz"),
        dequantize("w", "wf", "ws", "wz", axis),
        helper.make_node("Gemm", ["xf", "wf"], ["y"], transB=int(transposed)),
    ]
    content = model(nodes, {"x": x}, ["y"], **held)

    session = treadle.Session(content)

    np.testing.assert_allclose(session.run({"x": x})["y"], reference(content, x), rtol=1e-4, atol=1e-3)
    assert [call.reads[0].dtype for call in products(session)] == [dtypes.f32]


@pytest.mark.parametrize(("axis", "scales"), [(0, (2, 6)), (1, (8, 3)), (-1, (8, 3))])
def test_scales_of_blocks_are_repeated(axis: int, scales: tuple[int, int]) -> None:
    """
    Weights with a scale and a zero point for each block of an axis, as weight-only quantization writes them.
    """
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((4, 8)).astype(np.float32), some((8, 6), np.int8)
    held = {"w": w, "s": rng.random(scales).astype(np.float32) + 0.5, "z": some(scales, np.int8, 1)}
    block = 4 if axis == 0 else 2
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=axis, block_size=block),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    content = model(nodes, {"x": x}, ["y"], **held)
    session = treadle.Session(content)

    np.testing.assert_allclose(session.run({"x": x})["y"], reference(content, x), rtol=1e-5, atol=1e-3)
    assert [call.reads[0].dtype for call in products(session)] == [dtypes.f32]
