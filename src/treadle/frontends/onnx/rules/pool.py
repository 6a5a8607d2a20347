"""MaxPool, AveragePool and the global pools."""

from treadle import dtypes
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
