"""Softmax, LogSoftmax and Hardmax. Before opset 13 they see a matrix: all axes from `axis` on are one."""

from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.rule import Rule
from treadle.graph.value import Value


def softmax(op: str) -> Rule:
    """A rule for Softmax and LogSoftmax."""

    def rule(node: OnnxNode, b: Builder) -> Value:
        x = node.input(0)
        if node.version >= 13:
            return b.add(op, x, axis=node.axis(node.integer("axis", -1)))
        axis, rank = node.integer("axis", 1), node.rank()
        if rank is not None and node.axis(axis) == rank - 1:
            return b.add(op, x, axis=rank - 1)
        return over_matrix(op, x, axis, b)

    return rule


def over_matrix(op: str, x: Value, axis: int, b: Builder) -> Value:
    """`op` over all axes of `x` from `axis` on, as if they were one."""
    matrix = b.add("flatten", x, axis=axis)
    return b.add("reshape", b.add(op, matrix, axis=1), b.add("shape", x, start=0, end=None), allowzero=True)


def hardmax(node: OnnxNode, b: Builder) -> Value | None:
    """Hardmax(x) -> one_hot(argmax x), along an axis of known size."""
    x, dims = node.input(0), node.dims()
    if node.version < 13 or dims is None or x.dtype is None:
        return None
    axis = node.axis(node.integer("axis", -1))
    size = dims[axis]
    if size is None:
        return None
    largest = b.add("argmax", x, axis=axis, keepdims=False, last=False)
    off_on = b.add(
        "concat", *(b.add("reshape", b.scalar(n, x.dtype), b.integers([1]), allowzero=False) for n in (0, 1)), axis=0
    )
    return b.add("one_hot", largest, b.integers([size]), off_on, axis=axis)
