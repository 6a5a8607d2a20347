"""Quantized ONNX operators: exact results, without Python steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle.plan.kernels.conv.direct import DirectConvSpec

Array = np.ndarray[Any, Any]

KINDS = {"u8": (np.uint8, TensorProto.UINT8), "i8": (np.int8, TensorProto.INT8)}


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Array], outputs: Sequence[str], **constants: Any
) -> bytes:
    """Makes a model of opset 21; ONNX infers the types of its results."""
    takes = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    gives = [onnx.ValueInfoProto(name=name) for name in outputs]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", takes, gives, held)
    made = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    )
    return bytes(made.SerializeToString())


def run(content: bytes, inputs: Mapping[str, Array], math: Literal["fast", "exact"] = "fast") -> dict[str, Array]:
    """Runs a session after checking that each of its steps is a kernel."""
    session = treadle.Session(content, math=math)
    found = session.run(inputs)
    steps = [call for plan in session.plans() for call in plan.calls]
    assert [call.op for call in steps if call.spec is None] == []
    return dict(found)


def some(shape: Sequence[int], dtype: Any, seed: int = 0) -> Array:
    """Random numbers over the whole range of an 8-bit dtype."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


def convolved(x: Array, w: Array, pads: Sequence[int], stride: int, groups: int) -> Array:
    """Sums of [N, C, H, W] and [M, C / groups, KH, KW] in int64; pads are (top, left, bottom, right)."""
    padded = np.pad(x.astype(np.int64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    seen = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    parts = np.split(seen, groups, axis=1)
    each = [
        np.einsum("nchwij,mcij->nmhw", part, weights)
        for part, weights in zip(parts, np.split(w.astype(np.int64), groups), strict=True)
    ]
    return np.concatenate(each, axis=1)


def requantized(sums: Array, factor: Array, zero: Array) -> Array:
    """sums * factor in f32, rounded to even, plus zero, saturated."""
    limits = np.iinfo(zero.dtype)
    whole = np.rint(sums.astype(np.float32) * factor.astype(np.float32)) + zero.astype(np.float32)
    return np.asarray(np.clip(whole, limits.min, limits.max), zero.dtype)


CONVS = [
    (channels, outputs, kernel, groups, stride)
    for channels, outputs, kernel, groups, stride in (
        (16, 32, 3, 1, 1),
        (3, 16, 3, 1, 2),
        (32, 48, 1, 1, 1),
        (64, 64, 3, 1, 1),
        (37, 21, 3, 1, 1),
        (32, 32, 3, 32, 1),
        (32, 32, 3, 32, 2),
        (32, 64, 3, 2, 1),
        (12, 24, 5, 4, 2),
    )
]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("taken", KINDS)
@pytest.mark.parametrize(("channels", "outputs", "kernel", "groups", "stride"), CONVS)
def test_qlinear_conv_rounds_exact_sums_once(
    channels: int, outputs: int, kernel: int, groups: int, stride: int, taken: str, per_channel: bool
) -> None:
    """
    Padding counts as the zero point, and a bias is added to the sums.

    Halves are rounded to even, and results saturate. Weights may have one scale for each channel.
    """
    dtype, _ = KINDS[taken]
    x, w = some((2, channels, 9, 11), dtype), some((outputs, channels // groups, kernel, kernel), np.int8, 1)
    x_zero, y_zero = np.array(7, dtype), np.array(-3 if taken == "i8" else 100, dtype)
    rng = np.random.default_rng(2)
    w_scale = (rng.random(outputs if per_channel else ()) * 0.02 + 0.001).astype(np.float32)
    x_scale, y_scale = np.float32(0.031), np.float32(channels / groups * kernel * 0.1)
    bias = rng.integers(-5000, 5000, outputs).astype(np.int32)
    w_zero = np.zeros(w_scale.shape, np.int8)
    pads = [kernel // 2, kernel // 2, kernel // 2, 0]
    node = helper.make_node(
        "QLinearConv",
        ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
        ["y"],
        pads=pads,
        strides=[stride, stride],
        group=groups,
    )
    held = {"xs": x_scale, "xz": x_zero, "w": w, "ws": w_scale, "wz": w_zero, "ys": y_scale, "yz": y_zero, "b": bias}

    found = run(model([node], {"x": x}, ["y"], **held), {"x": x})["y"]

    sums = convolved(x.astype(np.int64) - int(x_zero), w, pads, stride, groups) + bias.reshape(-1, 1, 1)
    factor = np.asarray(x_scale * w_scale / y_scale).reshape(-1, *([1, 1] if per_channel else []))
    np.testing.assert_array_equal(found, requantized(sums, factor, y_zero))


@pytest.mark.parametrize(("size", "stride"), [(1, 1), (3, 1), (3, 2)])
def test_conv_integer_of_open_images_is_exact_with_few_large_weights(size: int, stride: int) -> None:
    """Without VNNI, most pairs of products fit 16 bits; the other weights are split in two terms."""
    w = some((24, 16, size, size), np.int8) // 2
    w[:, 5, -1, 0] = w[:, 4, -1, 0] = 127
    node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], pads=[size // 2] * 4, strides=[stride] * 2)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 16, "height", "width"])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.uint8(7), "zero")],
    )
    session = treadle.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    for height, width in ((5, 9), (13, 31), (1, 3)):
        x = some((1, 16, height, width), np.uint8, seed=width)
        (found,) = dict(session.run({"x": x})).values()
        wanted = convolved(x.astype(np.int64) - 7, w, [size // 2] * 4, stride, 1)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("weights", KINDS)
@pytest.mark.parametrize("known", [True, False])
def test_conv_integer_sums_exceed_the_exact_range_of_f32(known: bool, weights: str) -> None:
    """
    All factors have the largest value, so that sums exceed 2 ** 24 and are odd; the zero point may be an input.
    """
    dtype, _ = KINDS[weights]
    x = np.full((1, 129, 6, 6), 255, np.uint8)
    w = np.full((3, 129, 3, 3), 127 if weights == "i8" else 253, dtype)
    w[:, 0, 0, 0] -= np.arange(3).astype(dtype)
    zero, w_zero = np.array(1, np.uint8), np.array(2 if weights == "u8" else 0, dtype)
    node = helper.make_node("ConvInteger", ["x", "w", "zero", "w_zero"], ["y"], pads=[1, 1, 1, 1])
    inputs = {"x": x} if known else {"x": x, "zero": zero}
    held = {"w": w, "w_zero": w_zero, **({"zero": zero} if known else {})}

    found = run(model([node], inputs, ["y"], **held), inputs)["y"]

    sums = convolved(x.astype(np.int64) - 1, w.astype(np.int64) - int(w_zero), (1, 1, 1, 1), 1, 1)
    assert sums.max() > 1 << 24
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, sums)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "w_zero", [np.array(119, np.uint8), np.arange(32, dtype=np.uint8) + 100, np.array(-3, np.int8)]
)
def test_conv_integer_multiplies_bytes_whatever_the_zero_point_of_weights(w_zero: Array, known: bool) -> None:
    """w - w_zero has 9 bits: a kernel multiplies 8 of them, sums of windows do the rest, and the result is exact."""
    x, w, zero = some((2, 16, 9, 7), np.uint8), some((32, 16, 3, 3), w_zero.dtype, 1), np.array(77, np.uint8)
    pads = [1, 0, 1, 1]
    node = helper.make_node("ConvInteger", ["x", "w", "zero", "w_zero"], ["y"], pads=pads, strides=[2, 2])
    inputs = {"x": x} if known else {"x": x, "zero": zero}
    held = {"w": w, "w_zero": w_zero, **({"zero": zero} if known else {})}
    session = treadle.Session(model([node], inputs, ["y"], **held))

    found = session.run(inputs)["y"]

    each = w.astype(np.int64) - w_zero.astype(np.int64).reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(found, convolved(x.astype(np.int64) - 77, each, pads, 2, 1))
    specs = [call.spec for plan in session.plans() for call in plan.calls if call.op == "conv"]
    assert [spec for spec in specs if isinstance(spec, DirectConvSpec) and (spec.vnni or spec.words)]


@pytest.mark.parametrize("depth", [5, 64, 300, 2048])
@pytest.mark.parametrize("weights", [("i8", 0), ("i8", 3), ("u8", 128), ("u8", 20)])
@pytest.mark.parametrize("taken", KINDS)
@pytest.mark.parametrize("constant", [True, False])
def test_matmul_integer_is_exact_for_every_zero_point(
    depth: int, weights: tuple[str, int], taken: str, constant: bool
) -> None:
    a, b = some((2, 5, depth), KINDS[taken][0]), some((depth, 40), KINDS[weights[0]][0], 1)
    a_zero, b_zero = np.array(11, a.dtype), np.array(weights[1], b.dtype)
    node = helper.make_node("MatMulInteger", ["a", "b", "a_zero", "b_zero"], ["y"])
    inputs = {"a": a} if constant else {"a": a, "b": b}
    held = {"a_zero": a_zero, "b_zero": b_zero, **({"b": b} if constant else {})}

    found = run(model([node], inputs, ["y"], **held), inputs)["y"]

    np.testing.assert_array_equal(found, (a.astype(np.int64) - 11) @ (b.astype(np.int64) - weights[1]))


@pytest.mark.parametrize("per_axis", [False, True])
def test_qlinear_matmul_takes_scales_of_rows_and_columns(per_axis: bool) -> None:
    rng = np.random.default_rng(0)
    a, b = some((3, 7, 32), np.uint8), some((32, 20), np.int8, 1)
    rows, columns = ((7,), (20,)) if per_axis else ((), ())
    a_scale, b_scale = (rng.random(shape).astype(np.float32) * 0.1 + 0.01 for shape in (rows, columns))
    a_zero, b_zero = some(rows, np.uint8, 3), some(columns, np.int8, 4)
    y_scale, y_zero = np.float32(4.1), np.array(128, np.uint8)
    node = helper.make_node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"])
    held = {"as": a_scale, "az": a_zero, "b": b, "bs": b_scale, "bz": b_zero, "ys": y_scale, "yz": y_zero}

    found = run(model([node], {"a": a}, ["y"], **held), {"a": a})["y"]

    a_wide = a.astype(np.int64) - a_zero.astype(np.int64).reshape(-1, 1)
    sums = a_wide @ (b.astype(np.int64) - b_zero.astype(np.int64))
    np.testing.assert_array_equal(found, requantized(sums, a_scale.reshape(-1, 1) * b_scale / y_scale, y_zero))


@pytest.mark.parametrize("low", [-3.0, 0.0, 2.0])
def test_dynamic_quantization_computes_scale_and_zero_point_in_the_run(low: float) -> None:
    """
    As quantize_dynamic writes it: the range includes 0 even if no number is 0, and sums are exact.
    """
    x = (np.random.default_rng(0).random((4, 24)) * 5 + low).astype(np.float32)
    w = some((24, 40), np.int8)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero"], ["sums"]),
    ]

    found = run(model(nodes, {"x": x}, ["q", "scale", "zero", "sums"], w=w), {"x": x}, math="exact")

    least, most = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    scale = (most - least) / np.float32(255)
    zero = np.rint(np.clip(-least / scale, 0, 255))
    q = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    assert found["scale"] == scale
    assert found["zero"] == zero
    np.testing.assert_array_equal(found["q"], q)
    np.testing.assert_array_equal(found["sums"], (q.astype(np.int64) - int(zero)) @ w)


def test_zeros_are_quantized_dynamically() -> None:
    x = np.zeros((2, 3), np.float32)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])

    found = run(model([node], {"x": x}, ["q", "scale", "zero"]), {"x": x})

    assert found["q"].tolist() == [[0] * 3] * 2
    assert found["zero"] == 0


def test_a_zero_point_of_the_wrong_size_is_refused() -> None:
    x, w = some((1, 4, 5, 5), np.uint8), some((6, 4, 3, 3), np.int8)
    node = helper.make_node("ConvInteger", ["x", "w", "", "wz"], ["y"], name="odd")
    content = model([node], {"x": x}, ["y"], w=w, wz=np.zeros(5, np.int8))

    with pytest.raises(treadle.errors.TreadleError, match=r"odd.*w_zero_point must have 1 element or 6, got 5"):
        treadle.Session(content)
