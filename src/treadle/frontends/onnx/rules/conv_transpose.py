"""ConvTranspose."""

from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.conv import kernel_of
from treadle.frontends.onnx.rules.window import halved, per_axis
from treadle.graph.value import Value


def conv_transpose(node: OnnxNode, b: Builder) -> Value | None:
    """ConvTranspose -> conv_transpose; `output_shape` and `auto_pad` become pads."""
    kernel = kernel_of(node)
    if kernel is None:
        return None
    rank = len(kernel)
    strides, dilations = per_axis(node, "strides", rank, 1, 1), per_axis(node, "dilations", rank, 1, 1)
    output_padding = per_axis(node, "output_padding", rank, 0, 0)
    pads = _pads(node, kernel, strides, dilations, output_padding)
    if pads is None:
        return None
    return b.add(
        "conv_transpose",
        node.input(0),
        node.input(1),
        node.optional(2),
        strides=strides,
        pads=pads,
        dilations=dilations,
        groups=node.integer("group", 1),
        output_padding=output_padding,
    )


def _pads(
    node: OnnxNode,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    output_padding: tuple[int, ...],
) -> tuple[int, ...] | None:
    """Returns the pads; None if they depend on an unknown input size or would be negative."""
    rank = len(kernel)
    mode = node.choice("auto_pad", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    wanted = node.integers("output_shape")
    if wanted is None and mode == "NOTSET":
        return per_axis(node, "pads", 2 * rank, 0, 0)
    if wanted is None and mode == "VALID":
        return (0,) * (2 * rank)
    if wanted is not None and len(wanted) not in (rank, rank + 2):
        raise Fault(f"attribute 'output_shape' must be {rank} numbers, got {list(wanted)}")
    dims = node.dims(0)
    if dims is None or len(dims) != rank + 2:
        return None
    totals = []
    for axis in range(rank):
        size = dims[axis + 2]
        if size is None:
            return None
        target = size * strides[axis] if wanted is None else wanted[axis - rank]
        full = strides[axis] * (size - 1) + output_padding[axis] + (kernel[axis] - 1) * dilations[axis] + 1
        totals.append(full - target)
    if any(total < 0 for total in totals):
        return None
    return halved(totals, upper=mode == "SAME_UPPER")
