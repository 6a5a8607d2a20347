"""Reductions. `axes` became an operand in opset 13 (ReduceSum) and 18 (the others)."""

from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.rule import Rule
from treadle.graph.value import Value
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class _Over:
    """What to reduce: the axes (None: all; empty: none), and whether they stay as 1."""

    axes: tuple[int, ...] | None
    keepdims: bool


def _over(node: OnnxNode) -> _Over | None:
    """What `node` reduces, or None if its axes are computed by the model."""
    axes = node.integers("axes")
    if node.optional(1) is not None:
        axes = node.numbers(1)
        if axes is None:
            return None
    none_given = not axes
    if none_given:
        axes = () if node.flag("noop_with_empty_axes", default=False) else None
    return _Over(None if axes is None else node.axes(axes), node.flag("keepdims", default=True))


def _reduced(op: str, x: Value, over: _Over, b: Builder) -> Value:
    return x if over.axes == () else b.add(op, x, axes=over.axes, keepdims=over.keepdims)


def plain(op: str) -> Rule:
    """A rule for an operator that is the core reduction `op`."""

    def rule(node: OnnxNode, b: Builder) -> Value | None:
        over = _over(node)
        return None if over is None else _reduced(op, node.input(0), over, b)

    return rule


def l1(node: OnnxNode, b: Builder) -> Value | None:
    """ReduceL1(x) -> sum |x|."""
    over = _over(node)
    return None if over is None else _reduced("reduce_sum", b.add("abs", node.input(0)), over, b)


def l2(node: OnnxNode, b: Builder) -> Value | None:
    """ReduceL2(x) -> sqrt(sum x^2)."""
    over, x = _over(node), node.input(0)
    if over is None or x.dtype is None or not x.dtype.is_float:
        return None
    return b.add("sqrt", _reduced("reduce_sum", b.add("mul", x, x), over, b))


def sum_square(node: OnnxNode, b: Builder) -> Value | None:
    """ReduceSumSquare(x) -> sum x^2."""
    over, x = _over(node), node.input(0)
    return None if over is None else _reduced("reduce_sum", b.add("mul", x, x), over, b)


def log_sum(node: OnnxNode, b: Builder) -> Value | None:
    """ReduceLogSum(x) -> log(sum x)."""
    over, x = _over(node), node.input(0)
    if over is None or x.dtype is None or not x.dtype.is_float:
        return None
    return b.add("log", _reduced("reduce_sum", x, over, b))


def log_sum_exp(node: OnnxNode, b: Builder) -> Value | None:
    """ReduceLogSumExp(x) -> m + log(sum exp(x - m)), m the largest x (0 where that is infinite: no inf - inf)."""
    over, x = _over(node), node.input(0)
    if over is None or x.dtype is None or not x.dtype.is_float:
        return None
    if over.axes == ():
        return x
    largest = b.add("reduce_max", x, axes=over.axes, keepdims=True)
    shift = b.add("where", b.add("isinf", largest), b.scalar(0, x.dtype), largest)
    total = b.add("reduce_sum", b.add("exp", b.add("sub", x, shift)), axes=over.axes, keepdims=over.keepdims)
    if not over.keepdims:
        shift = b.add("reduce_max", shift, axes=over.axes, keepdims=False)
    return b.add("add", b.add("log", total), shift)


def arg(op: str) -> Rule:
    """A rule for ArgMax and ArgMin."""

    def rule(node: OnnxNode, b: Builder) -> Value:
        return b.add(
            op,
            node.input(0),
            axis=node.axis(node.integer("axis", 0)),
            keepdims=node.flag("keepdims", default=True),
            last=node.flag("select_last_index", default=False),
        )

    return rule


def cumulative(op: str) -> Rule:
    """CumSum and CumProd -> `op`, if the axis is known."""

    def rule(node: OnnxNode, b: Builder) -> Value | None:
        axis = node.numbers(1)
        if axis is None or len(axis) != 1:
            return None
        return b.add(
            op,
            node.input(0),
            axis=node.axis(axis[0]),
            exclusive=node.flag("exclusive", default=False),
            reverse=node.flag("reverse", default=False),
        )

    return rule
