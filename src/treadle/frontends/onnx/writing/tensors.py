"""Operations that move, join and pick elements as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.frontends.onnx.types import NUMBERS
from treadle.frontends.onnx.writing.sizes import write_sizes
from treadle.frontends.onnx.writing.writer import Unwritable, Writer, operand, optional, rank_of, tensor_of
from treadle.graph.node import Node

Write = Callable[[Node, Writer], None]


def plain(op: str, *attrs: str, integers: tuple[int, ...] = (), **renamed: str) -> Write:
    """Return a function that writes a node as `op`, an ONNX operator with the same operands.

    `attrs` are attributes that have the same name in ONNX. `renamed` maps the ONNX names of the others to theirs here.
    The operands `integers` become int64.
    """

    def write(node: Node, w: Writer) -> None:
        names = [
            "" if value is None else w.as_int64(value) if index in integers else w.name(value)
            for index, value in enumerate(node.inputs)
        ]
        given: dict[str, Any] = {name: node.attrs.get(name) for name in attrs}
        given.update({other: node.attrs.get(name) for other, name in renamed.items()})
        w.emit(op, names, [w.name(value) for value in node.outputs], **given)

    return write


def _cast(node: Node, w: Writer) -> None:
    w.emit("Cast", [w.name(operand(node, 0))], [w.name(node.output)], to=NUMBERS[node.attrs["to"]])


def _reshape(node: Node, w: Writer) -> None:
    names = [w.name(operand(node, 0)), w.as_int64(operand(node, 1))]
    w.emit("Reshape", names, [w.name(node.output)], allowzero=bool(node.attrs.get("allowzero", False)))


def _shape(node: Node, w: Writer) -> None:
    start, end = node.attrs.get("start") or 0, node.attrs.get("end")
    w.emit("Shape", [w.name(operand(node, 0))], [w.name(node.output)], start=start, end=end)


def _range(node: Node, w: Writer) -> None:
    scalars = [
        w.name(operand(node, index))
        if rank_of(node.inputs[index]) == 0
        else w.emit("Reshape", [w.name(operand(node, index)), w.integers([])])
        for index in range(3)
    ]
    w.emit("Range", scalars, [w.name(node.output)])


def _constant_of_shape(node: Node, w: Writer) -> None:
    value = tensor_of(node.attrs["value"].reshape(1), "value")
    w.emit("ConstantOfShape", [w.as_int64(operand(node, 0))], [w.name(node.output)], value=value)


def _split(node: Node, w: Writer) -> None:
    sizes = optional(node, 1)
    names = [w.name(operand(node, 0)), "" if sizes is None else w.as_int64(sizes)]
    count = len(node.outputs) if sizes is None else None
    w.emit("Split", names, [w.name(value) for value in node.outputs], axis=node.attrs["axis"], num_outputs=count)


def _top_k(node: Node, w: Writer) -> None:
    k = w.emit("Reshape", [w.as_int64(operand(node, 1)), w.integers([1])])
    outputs = [w.name(value) for value in node.outputs]
    attrs = {name: node.attrs[name] for name in ("axis", "largest")}
    w.emit("TopK", [w.name(operand(node, 0)), k], outputs, sorted=True, **attrs)


def _cumulative(op: str) -> Write:
    def write(node: Node, w: Writer) -> None:
        axis = w.constant(np.array(node.attrs["axis"], np.int64), "axis")
        attrs = {name: node.attrs[name] for name in ("exclusive", "reverse")}
        w.emit(op, [w.name(operand(node, 0)), axis], [w.name(node.output)], **attrs)

    return write


def _counted(node: Node, w: Writer) -> None:
    """Write `counted` as Identity: results of ONNX operators are no larger than the number of elements found."""
    w.emit("Identity", [w.name(operand(node, 0))], [w.name(node.output)])


def found(op: str, axis: int, **renamed: str) -> Write:
    """Return a function that writes a node as `op`, which finds elements along `axis`.

    The second result of the node is how many it finds.
    """

    def write(node: Node, w: Writer) -> None:
        result, count = node.outputs
        if any(user.op != "counted" for user in result.users):
            raise Unwritable("what it finds is read with the memory behind")
        names = [w.name(value) for value in node.inputs if value is not None]
        given = {other: node.attrs[name] for other, name in renamed.items()}
        w.emit(op, names, [w.name(result)], **given)
        if any(user.op != "counted" for user in count.users):
            w.emit("Shape", [w.name(result)], [w.name(count)], start=axis, end=axis + 1)

    return write


def _roi_align(node: Node, w: Writer) -> None:
    """ONNX's RoiAlign has the channels on axis 1, the core op on the last axis."""
    attrs = node.attrs
    x = w.emit("Transpose", [w.name(operand(node, 0))], perm=(0, 3, 1, 2))
    made = w.emit(
        "RoiAlign",
        [x, w.name(operand(node, 1)), w.as_int64(operand(node, 2))],
        output_height=attrs["rows"],
        output_width=attrs["columns"],
        sampling_ratio=attrs["samples"],
        spatial_scale=float(attrs["scale"]),
        mode="max" if attrs["largest"] else "avg",
        coordinate_transformation_mode="half_pixel" if attrs["half_pixel"] else "output_half_pixel",
    )
    w.emit("Transpose", [made], [w.name(node.output)], perm=(0, 2, 3, 1))


def _pick_channels(node: Node, w: Writer) -> None:
    parts = [
        w.emit("Slice", [w.name(operand(node, index)), *(w.integers([n]) for n in (channel, channel + 1, 1))])
        for index, channel in node.attrs["picks"]
    ]
    w.emit("Concat", parts, [w.name(node.output)], axis=1)


TENSORS: dict[str, Write] = {
    "argmax": plain("ArgMax", "axis", "keepdims", select_last_index="last"),
    "argmin": plain("ArgMin", "axis", "keepdims", select_last_index="last"),
    "cast": _cast,
    "concat": plain("Concat", "axis"),
    "constant_of_shape": _constant_of_shape,
    "counted": _counted,
    "cumprod": _cumulative("CumProd"),
    "cumsum": _cumulative("CumSum"),
    "depth_to_space": plain("DepthToSpace", "mode", blocksize="block"),
    "einsum": plain("Einsum", "equation"),
    "expand": plain("Expand", integers=(1,)),
    "flatten": plain("Flatten", "axis"),
    "gather": plain("Gather", "axis", integers=(1,)),
    "gather_elements": plain("GatherElements", "axis", integers=(1,)),
    "gather_nd": plain("GatherND", "batch_dims", integers=(1,)),
    "identity": plain("Identity"),
    "non_max_suppression": found("NonMaxSuppression", 0, center_point_box="center"),
    "non_zero": found("NonZero", 1),
    "one_hot": plain("OneHot", "axis"),
    "pad": plain("Pad", "mode", integers=(1, 3)),
    "pick_channels": _pick_channels,
    "range": _range,
    "reshape": _reshape,
    "reverse_sequence": plain("ReverseSequence", "time_axis", "batch_axis", integers=(1,)),
    "roi_align": _roi_align,
    "scatter_elements": plain("ScatterElements", "axis", "reduction", integers=(1,)),
    "scatter_nd": plain("ScatterND", "reduction", integers=(1,)),
    "shape": _shape,
    "size": plain("Size"),
    "sizes": write_sizes,
    "slice": plain("Slice", integers=(1, 2, 3, 4)),
    "space_to_depth": plain("SpaceToDepth", blocksize="block"),
    "split": _split,
    "squeeze": plain("Squeeze", integers=(1,)),
    "tile": plain("Tile", integers=(1,)),
    "top_k": _top_k,
    "transpose": plain("Transpose", "perm"),
    "trilu": plain("Trilu", "upper", integers=(1,)),
    "unsqueeze": plain("Unsqueeze", integers=(1,)),
}
"""Core op -> the function that writes a node of it."""
