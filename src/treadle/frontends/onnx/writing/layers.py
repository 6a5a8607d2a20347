"""Products, convolutions, pools, reductions and normalisations as ONNX nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.onnx.types import NUMBERS
from treadle.frontends.onnx.writing.tensors import Write, plain
from treadle.frontends.onnx.writing.writer import Unwritable, Writer, dtype_of, operand, optional, rank_of
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.ops.operands import BYTES
from treadle.ops.window import SAME


def _without_epilogue(node: Node) -> None:
    if node.attrs.get("epilogue") is not None or node.attrs.get("head") is not None:
        raise Unwritable("other nodes are fused into it")


def _matmul(node: Node, w: Writer) -> None:
    _without_epilogue(node)
    a, b = (_side(node, index, side, w) for index, side in enumerate(("a", "b")))
    kinds = {dtype_of(node.inputs[index]) for index in (0, 1)}
    if len(kinds) > 1 and not kinds.issubset(BYTES):
        raise Unwritable(f"it multiplies {' by '.join(sorted(map(str, kinds)))}")
    op = "MatMulInteger" if kinds.issubset(BYTES) else "MatMul"
    perm = node.attrs.get("out_perm")
    product = w.emit(op, [a, b], [] if perm is not None else [w.name(node.output)])
    if perm is not None:
        w.emit("Transpose", [product], [w.name(node.output)], perm=perm)


def _side(node: Node, index: int, side: str, w: Writer) -> str:
    value, perm = operand(node, index), node.attrs.get(f"{side}_perm")
    turned = node.attrs.get(f"transpose_{side}", False)
    if not perm and not turned:
        return w.name(value)
    order = list(perm or range(rank_of(value)))
    if turned and len(order) >= 2:
        order[-2:] = order[:-3:-1]
    if order == sorted(order):
        return w.name(value)
    return w.emit("Transpose", [w.name(value)], perm=order)


def _window(node: Node) -> dict[str, Any]:
    pads = node.attrs["pads"]
    padding: dict[str, Any] = {"auto_pad": pads.upper()} if pads in SAME else {"pads": pads}
    return {"strides": node.attrs["strides"], "dilations": node.attrs["dilations"], **padding}


def _conv(node: Node, w: Writer) -> None:
    _without_epilogue(node)
    x, weights, bias = operand(node, 0), operand(node, 1), optional(node, 2)
    if dtype_of(x) not in BYTES:
        if dtype_of(x) != dtype_of(weights):
            raise Unwritable(f"it multiplies {x.dtype} by {weights.dtype}")
        names = [w.name(x), w.name(weights), "" if bias is None else w.name(bias)]
        w.emit("Conv", names, [w.name(node.output)], group=node.attrs["groups"], **_window(node))
        return
    names = [w.name(x), w.name(weights), w.scalar(node.attrs.get("zero", 0), dtype_of(x))]
    target = [w.name(node.output)]
    sums = w.emit("ConvInteger", names, [] if bias else target, group=node.attrs["groups"], **_window(node))
    if bias is not None:
        shape = w.integers([-1, *(1,) * (rank_of(x) - 2)])
        w.emit("Add", [sums, w.emit("Reshape", [w.name(bias), shape])], target)


def _conv_transpose(node: Node, w: Writer) -> None:
    names = ["" if value is None else w.name(value) for value in node.inputs]
    padding = node.attrs["output_padding"]
    window = _window(node)
    w.emit("ConvTranspose", names, [w.name(node.output)], group=node.attrs["groups"], output_padding=padding, **window)


def _pool(op: str, *attrs: str) -> Write:
    def write(node: Node, w: Writer) -> None:
        given = {name: node.attrs[name] for name in ("ceil_mode", *attrs)}
        window = _window(node)
        w.emit(
            op, [w.name(operand(node, 0))], [w.name(node.output)], kernel_shape=node.attrs["kernel"], **given, **window
        )

    return write


def _resize(node: Node, w: Writer) -> None:
    attrs = node.attrs
    x, roi, scales, sizes = (optional(node, index) for index in range(4))
    assert x is not None, "its shape rule wants this operand"
    names = [w.name(x), *("" if value is None else w.name(value) for value in (roi, scales))]
    names.append("" if sizes is None else w.as_int64(sizes))
    w.emit(
        "Resize",
        names,
        [w.name(node.output)],
        mode=attrs["mode"],
        coordinate_transformation_mode=attrs["coordinate_mode"],
        nearest_mode=attrs.get("nearest_mode"),
        cubic_coeff_a=attrs.get("cubic_coeff"),
        exclude_outside=bool(attrs.get("exclude_outside", False)),
        extrapolation_value=attrs.get("extrapolation"),
        antialias=bool(attrs.get("antialias", False)),
        axes=attrs.get("axes") or None,
        keep_aspect_ratio_policy=attrs.get("keep_aspect"),
    )


def _reduce(op: str) -> Write:
    def write(node: Node, w: Writer) -> None:
        _without_epilogue(node)
        axes = node.attrs["axes"]
        names = [w.name(operand(node, 0)), *([] if axes is None else [w.integers(axes)])]
        empty = axes is not None and not axes
        w.emit(op, names, [w.name(node.output)], keepdims=bool(node.attrs["keepdims"]), noop_with_empty_axes=empty)

    return write


def _softmax(node: Node, w: Writer) -> None:
    x, axis = operand(node, 0), node.attrs["axis"]
    safe = bool(node.attrs.get("safe"))
    made = w.emit("Softmax", [w.name(x)], [] if safe else [w.name(node.output)], axis=axis)
    if safe:
        most = w.emit("ReduceMax", [w.name(x), w.integers([axis])], keepdims=True)
        empty = w.emit("Equal", [most, w.scalar(-math.inf, dtype_of(x))])
        w.emit("Where", [empty, w.scalar(0, dtype_of(x)), made], [w.name(node.output)])


def _layer_norm(node: Node, w: Writer) -> None:
    """LayerNormalization takes a scale and bias of the normalised shape. Those of other shapes become Mul and Add."""
    x, scale, bias = operand(node, 0), optional(node, 1), optional(node, 2)
    axis = node.attrs["axis"]
    shape = tuple(x.shape or ())[axis:]
    own = [value for value in (scale, bias) if value is not None and value.shape != shape]
    if own or scale is None:
        if not all(type(size) is int for size in shape):
            raise Unwritable("the sizes that it normalises are not known")
        ones = w.constant(np.ones(shape, dtype_of(x).numpy), "ones")
        names = [w.name(x), ones]
        steps = [(op, value) for op, value in (("Mul", scale), ("Add", bias)) if value is not None]
    else:
        names = [w.name(x), w.name(scale), *([] if bias is None else [w.name(bias)])]
        steps = []
    target = [w.name(node.output)]
    made = w.emit("LayerNormalization", names, [] if steps else target, axis=axis, epsilon=float(node.attrs["epsilon"]))
    _steps(made, steps, target, w)


def _steps(made: str, steps: list[tuple[str, Value]], target: list[str], w: Writer) -> None:
    for number, (op, value) in enumerate(steps, start=1):
        made = w.emit(op, [made, w.name(value)], target if number == len(steps) else [])


def _rms_norm(node: Node, w: Writer) -> None:
    """Written as its definition: operator sets before 23 have no operator for it. Halves are computed in f32."""
    x, scale = operand(node, 0), optional(node, 1)
    dtype, rank = dtype_of(x), rank_of(x)
    half = dtype in (dtypes.f16, dtypes.bf16)
    wide = dtypes.f32 if half else dtype
    axis = node.attrs["axis"] % rank

    def widened(value: Value) -> str:
        return w.emit("Cast", [w.name(value)], to=NUMBERS[wide]) if half else w.name(value)

    values = widened(x)
    squares = w.emit("Mul", [values, values])
    mean = w.emit("ReduceMean", [squares, w.integers(range(axis, rank))], keepdims=True)
    root = w.emit("Sqrt", [w.emit("Add", [mean, w.scalar(node.attrs["epsilon"], wide)])])
    target = [w.name(node.output)]
    made = w.emit("Div", [values, root], [] if half or scale is not None else target)
    if scale is not None:
        made = w.emit("Mul", [made, widened(scale)], [] if half else target)
    if half:
        w.emit("Cast", [made], target, to=NUMBERS[dtype])


LAYERS: dict[str, Write] = {
    "avg_pool": _pool("AveragePool", "count_include_pad"),
    "batch_norm": plain("BatchNormalization", "epsilon"),
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "group_norm": plain("GroupNormalization", "epsilon", num_groups="groups"),
    "instance_norm": plain("InstanceNormalization", "epsilon"),
    "layer_norm": _layer_norm,
    "log_softmax": plain("LogSoftmax", "axis"),
    "lrn": plain("LRN", "size", "alpha", "beta", "bias"),
    "matmul": _matmul,
    "max_pool": _pool("MaxPool"),
    "reduce_max": _reduce("ReduceMax"),
    "reduce_mean": _reduce("ReduceMean"),
    "reduce_min": _reduce("ReduceMin"),
    "reduce_prod": _reduce("ReduceProd"),
    "reduce_sum": _reduce("ReduceSum"),
    "resize": _resize,
    "rms_norm": _rms_norm,
    "softmax": _softmax,
}
"""Core op -> the function that writes a node of it."""
