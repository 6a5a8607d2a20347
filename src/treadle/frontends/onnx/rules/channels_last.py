"""Operators of ONNX Runtime (com.microsoft) on images whose channels come last: moved to the front, and back.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.activation import swish_of
from treadle.frontends.onnx.rules.conv import kernel_of
from treadle.frontends.onnx.rules.fused import finished_conv
from treadle.frontends.onnx.rules.integer_conv import qlinear_conv
from treadle.frontends.onnx.rules.pool import max_pool
from treadle.frontends.onnx.rules.window import conv_over, window_of
from treadle.graph.value import Value
from treadle.records import dataclass

_Rule = Callable[[OnnxNode, Builder], "Value | None"]


@dataclass(frozen=True, slots=True)
class _Order:
    """The permutations that move the channels of an image of `rank` dimensions."""

    rank: int

    def to_front(self, x: Value, b: Builder) -> Value:
        return b.add("transpose", x, perm=(0, self.rank - 1, *range(1, self.rank - 1)))

    def to_back(self, x: Value, b: Builder) -> Value:
        return b.add("transpose", x, perm=(0, *range(2, self.rank), 1))


def _order(node: OnnxNode) -> _Order:
    rank = node.rank()
    if rank is None or rank < 3:
        raise Unsupported("the rank of its image must be known, and 3 or more")
    return _Order(rank)


def _front(node: OnnxNode, order: _Order, b: Builder) -> OnnxNode:
    """The same node of an image whose channels come first."""
    return node.reading([order.to_front(node.input(0), b), *node.inputs[1:]])


def _back(found: Value | None, order: _Order, b: Builder) -> Value:
    if found is None:
        raise Unsupported("the sizes of its kernel, and of its image for SAME padding, must be known")
    return order.to_back(found, b)


def conv(node: OnnxNode, b: Builder) -> Value:
    """NhwcConv(x, w, bias) -> conv of the image; weights are those of Conv."""
    order = _order(node)
    moved = _front(node, order, b)
    kernel = kernel_of(moved)
    window = None if kernel is None else window_of(moved, kernel)
    found = None if window is None else conv_over(moved, window, moved.input(0), moved.input(1), moved.optional(2), b)
    return _back(found, order, b)


def fused_conv(node: OnnxNode, b: Builder) -> Value:
    """NhwcFusedConv(x, w, bias, z) -> activation(conv + z)."""
    return finished_conv(node, conv(node, b), b)


def pooled(node: OnnxNode, b: Builder) -> Value:
    """NhwcMaxPool(x) -> max_pool of the image."""
    order = _order(node)
    return _back(max_pool(_front(node, order, b), b), order, b)


def quantized_conv(node: OnnxNode, b: Builder) -> Value:
    """QLinearConv of com.microsoft -> that of ai.onnx, of an image whose channels come last with `channels_last`."""
    if not node.flag("channels_last", default=False):
        found = qlinear_conv(node, b)
        if found is None:
            raise Unsupported("the shapes of its weights, scales and zero points must be known")
        return found
    order = _order(node)
    return _back(qlinear_conv(_front(node, order, b), b), order, b)


def group_norm(node: OnnxNode, b: Builder) -> Value:
    """GroupNorm(x, gamma, beta) -> group_norm of an image whose channels come last, then SiLU if `activation` is 1."""
    return _group_norm(node, node.input(0), b)


def skip_group_norm(node: OnnxNode, b: Builder) -> list[Value]:
    """SkipGroupNorm(x, gamma, beta, skip, bias) -> GroupNorm(x + skip + bias), and that sum."""
    x, skip, bias, rank = node.input(0), node.input(3), node.optional(4), node.rank()
    last = node.flag("channels_last", default=True)
    if rank != 4:
        raise Unsupported("its image must have rank 4")
    if node.rank(3) == 2:
        skip = b.add("unsqueeze", skip, b.integers([1, 2] if last else [2, 3]))
    elif not last:
        raise Unsupported("'skip' of rank 4 must have its channels last")
    total = b.add("add", x, skip)
    if bias is not None:
        total = b.add("add", total, bias if last else b.add("unsqueeze", bias, b.integers([1, 2])))
    return [_group_norm(node, total, b), total]


def _group_norm(node: OnnxNode, x: Value, b: Builder) -> Value:
    """GroupNorm of `x` in the place of operand 0."""
    last, how = node.flag("channels_last", default=True), node.integer("activation", 0)
    if how not in (0, 1):
        raise Fault(f"attribute 'activation' must be 0 or 1, got {how}")
    order = _order(node)
    tables = (b.cast(value, x.dtype) for value in node.inputs[1:3] if value)
    image = order.to_front(x, b) if last else x
    epsilon, groups = node.number("epsilon", 1e-5), node.integer("groups", 1)
    found = b.add("group_norm", image, *tables, epsilon=epsilon, groups=groups)
    activated_ = swish_of(found, 1.0, b) if how else found
    return order.to_back(activated_, b) if last else activated_
