"""MaxPool, AveragePool, LpPool and the global pools."""

import math

from treadle import dtypes
from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.rule import Rule
from treadle.frontends.onnx.rules.window import SameWindow, Window, window_of
from treadle.graph.value import Value


def _window(node: OnnxNode) -> Window | SameWindow | None:
    kernel = node.integers("kernel_shape")
    return None if kernel is None else window_of(node, kernel)


def _pool(op: str, node: OnnxNode, window: Window | SameWindow, x: Value, b: Builder, **attrs: bool) -> Value:
    return b.add(
        op,
        x,
        kernel=window.kernel,
        strides=window.strides,
        pads=window.pads,
        dilations=window.dilations,
        ceil_mode=node.flag("ceil_mode", default=False),
        **attrs,
    )


def max_pool(node: OnnxNode, b: Builder) -> Value | None:
    """MaxPool -> max_pool; with its second result (indices) it is left to the reference."""
    window = _window(node)
    if window is None or len(node.outputs) > 1 or node.dtype() == dtypes.boolean:
        return None
    return _pool("max_pool", node, window, node.input(0), b)


def average_pool(node: OnnxNode, b: Builder, x: Value | None = None) -> Value | None:
    """AveragePool of `x`, or else of the node's first operand."""
    window = _window(node)
    if window is None:
        return None
    pooled = node.input(0) if x is None else x
    return _pool("avg_pool", node, window, pooled, b, count_include_pad=node.flag("count_include_pad", default=False))


def global_pool(op: str) -> Rule:
    """A rule for GlobalAveragePool and GlobalMaxPool: `op` over the spatial axes, which stay as 1."""

    def rule(node: OnnxNode, b: Builder) -> Value | None:
        rank = node.rank()
        return None if rank is None else b.add(op, node.input(0), axes=tuple(range(2, rank)), keepdims=True)

    return rule


def lp_pool(node: OnnxNode, b: Builder) -> Value | None:
    """LpPool(x) -> the root of the sum of the powers of |x| in each window: means of as many elements as a window has.

    Windows beyond the pads, as `ceil_mode` makes them, are left to the reference.
    """
    window = _window(node)
    if window is None or node.flag("ceil_mode", default=False) or node.dtype() is None:
        return None
    power = node.integer("p", 2)
    means = _pool("avg_pool", node, window, _power(node.input(0), power, b), b, count_include_pad=True)
    return _root(b.add("mul", means, b.scalar(math.prod(window.kernel), means.dtype)), power, b)


def global_lp_pool(node: OnnxNode, b: Builder) -> Value | None:
    """GlobalLpPool(x) -> the root of the sum of the powers of |x| over the spatial axes, which stay as 1."""
    rank = node.rank()
    if rank is None or node.dtype() is None:
        return None
    power = node.integer("p", 2)
    total = b.add("reduce_sum", _power(node.input(0), power, b), axes=tuple(range(2, rank)), keepdims=True)
    return _root(total, power, b)


def _power(x: Value, power: int, b: Builder) -> Value:
    """|x| to the `power`. Raises Fault if that is less than 1."""
    if power < 1:
        raise Fault(f"attribute 'p' must be 1 or more, got {power}")
    if power == 2:
        return b.add("mul", x, x)
    size = b.add("abs", x)
    return size if power == 1 else b.add("pow", size, b.scalar(power, x.dtype))


def _root(x: Value, power: int, b: Builder) -> Value:
    if power == 2:
        return b.add("sqrt", x)
    return x if power == 1 else b.add("pow", x, b.scalar(1 / power, x.dtype))
