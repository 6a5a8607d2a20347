"""Operators that rearrange elements: reshapes, transposes, concatenation, slices, splits, pads."""

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value


def identity(node: OnnxNode, b: Builder) -> Value:  # noqa: ARG001 - every rule takes a builder
    """Identity(x) -> x itself."""
    return node.input(0)


def reshape(node: OnnxNode, b: Builder) -> Value:
    return b.add("reshape", node.input(0), node.input(1), allowzero=node.flag("allowzero", default=False))


def flatten(node: OnnxNode, b: Builder) -> Value:
    axis, rank = node.integer("axis", 1), node.rank()
    return b.add("flatten", node.input(0), axis=axis if axis == rank else node.axis(axis))


def _axes(node: OnnxNode, b: Builder) -> Value | None:
    """The axes, an operand since opset 13 and an attribute before."""
    axes = node.integers("axes")
    return b.integers(axes) if axes is not None else node.optional(1)


def squeeze(node: OnnxNode, b: Builder) -> Value:
    axes = _axes(node, b)
    return b.add("squeeze", node.input(0), *([] if axes is None else [axes]))


def unsqueeze(node: OnnxNode, b: Builder) -> Value:
    axes = _axes(node, b)
    if axes is None:
        raise Fault("its axes are missing")
    return b.add("unsqueeze", node.input(0), axes)


def transpose(node: OnnxNode, b: Builder) -> Value | None:
    """Transpose -> transpose; without `perm` the axes are reversed."""
    perm, rank = node.integers("perm"), node.rank()
    if perm is None:
        if rank is None:
            return None
        perm = tuple(reversed(range(rank)))
    return b.add("transpose", node.input(0), perm=node.axes(perm))


def concat(node: OnnxNode, b: Builder) -> Value:
    values = [node.input(index) for index in range(len(node.inputs))]
    return b.add("concat", *values, axis=node.axis(node.integer("axis", 0)))


def slice_(node: OnnxNode, b: Builder) -> Value:
    """Slice -> slice; before opset 10 the bounds are attributes."""
    if node.version >= 10:
        return b.add("slice", *node.inputs)
    starts, ends, axes = (node.integers(name) for name in ("starts", "ends", "axes"))
    bounds = [b.integers(numbers or ()) for numbers in (starts, ends)]
    return b.add("slice", node.input(0), *bounds, None if axes is None else b.integers(axes))


def split(node: OnnxNode, b: Builder) -> list[Value] | None:
    """Split -> split; the sizes are an attribute before opset 13."""
    parts = len(node.proto.output)
    sizes = node.integers("split")
    given = b.integers(sizes) if sizes is not None else node.optional(1)
    if node.has("num_outputs") and node.integer("num_outputs", 0) != parts:
        raise Fault(f"attribute 'num_outputs' is {node.integer('num_outputs', 0)}, but it has {parts} outputs")
    operands = [node.input(0)] if given is None else [node.input(0), given]
    return b.add_many("split", operands, parts, axis=node.axis(node.integer("axis", 0)), parts=parts)


def pad(node: OnnxNode, b: Builder) -> Value:
    """Pad -> pad; before opset 11 pads and value are attributes."""
    mode = node.choice("mode", "constant", "constant", "reflect", "edge", "wrap")
    x = node.input(0)
    if node.version >= 11:
        return b.add("pad", x, *node.inputs[1:], mode=mode)
    value = b.scalar(node.number("value", 0.0), x.dtype)
    return b.add("pad", x, b.integers(node.integers("pads") or ()), value, mode=mode)


def depth_to_space(node: OnnxNode, b: Builder) -> Value:
    mode = node.choice("mode", "DCR", "DCR", "CRD")
    return b.add("depth_to_space", node.input(0), block=node.integer("blocksize", 0), mode=mode)


def space_to_depth(node: OnnxNode, b: Builder) -> Value | None:
    if node.choice("mode", "DCR", "DCR", "CRD") != "DCR":
        return None
    return b.add("space_to_depth", node.input(0), block=node.integer("blocksize", 0), mode="DCR")


def einsum(node: OnnxNode, b: Builder) -> Value | None:
    """Einsum -> einsum, of numbers."""
    if node.dtype() in (None, dtypes.string, dtypes.boolean):
        return None
    return b.add("einsum", *node.inputs, equation=node.text("equation", ""))
