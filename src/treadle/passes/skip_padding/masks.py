"""Values that are a function of the attention mask, element by element."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treadle.graph.dim import equals
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape
from treadle.graph.value import Value
from treadle.ops.elementwise import SCALAR_OPS
from treadle.ops.op import Array
from treadle.ops.sizes import known_sizes
from treadle.ops.table import OPS
from treadle.passes.match import number, produced_by, uniform
from treadle.records import dataclass

LOWEST = -1e4
"""A mask adds this or less to the scores of padding: exporters write -10000, the least float or -inf."""

_MOST_STEPS = 16
"""How far a value is followed back."""


@dataclass(frozen=True, slots=True)
class Mask:
    """Each element is `zero` where the attention mask is 0 and `one` where it is 1, at the text and token that the axes
    `text` and `token` count."""

    zero: Any
    one: Any
    text: int
    token: int

    def is_at(self, rank: int, text: int, token: int, of: int) -> bool:
        """Whether, broadcast from `rank` to a value of rank `of`, its axes are `text` and `token`."""
        return self.text + of - rank == text and self.token + of - rank == token


class Masks:
    """Finds the functions of one attention mask among the values of a graph, node by node."""

    def __init__(self, mask: Value) -> None:
        values = np.array([0, 1], mask.known_dtype.numpy)
        self._known: dict[Value, Mask] = {mask: Mask(values[0], values[1], 0, 1)}
        self._uniform: dict[Value, Any] = {}

    def get(self, value: Value | None) -> Mask | None:
        """What `value` is, if it is a function of the mask."""
        return None if value is None else self._known.get(value)

    def number(self, value: Value | None) -> Any:
        """The number that every element of `value` is; None if it is not known."""
        if value is None:
            return None
        found = uniform(value)
        return self._uniform.get(value) if found is None else found

    def visit(self, node: Node) -> None:
        """Learn what the result of `node` is."""
        if len(node.outputs) != 1:
            return
        if node.op in SCALAR_OPS or node.op == "cast":
            self._visit_elementwise(node)
            return
        source = self.get(node.inputs[0]) if node.inputs else None
        if node.op == "gather_nd" and source is not None:
            self._learn(node.output, _gathered(node, source))
        elif node.op == "transpose" and source is not None:
            perm = list(node.attrs["perm"])
            moved = replace(source, text=perm.index(source.text), token=perm.index(source.token))
            self._learn(node.output, moved)
        elif node.op in ("reshape", "expand", "identity"):
            constant = self.number(node.inputs[0])
            if constant is not None:
                self._uniform[node.output] = constant
            elif source is not None:
                self._learn(node.output, _moved(node, source))

    def _learn(self, value: Value, mask: Mask | None) -> None:
        if mask is not None:
            self._known[value] = mask

    def _visit_elementwise(self, node: Node) -> None:
        if node.op in ("ge", "gt") and _always_holds(node):
            self._uniform[node.output] = True
            return
        rank = len(node.output.static_shape)
        axes = set()
        sides: tuple[list[Array], list[Array]] = ([], [])
        for value in node.inputs:
            mask, constant = self.get(value), self.number(value)
            if value is None or (mask is None and constant is None):
                return
            dtype = value.known_dtype.numpy
            if mask is not None:
                shift = rank - len(value.static_shape)
                axes.add((mask.text + shift, mask.token + shift))
            for side, own in zip(sides, (mask.zero, mask.one) if mask else (constant, constant), strict=True):
                side.append(np.array(own, dtype))
        evaluate = OPS[node.op].evaluate
        if evaluate is None or len(axes) > 1 or not sides[0]:
            return
        with np.errstate(all="ignore"):
            zero, one = (evaluate(node.attrs, side)[0][()] for side in sides)
        if axes:
            self._known[node.output] = Mask(zero, one, *axes.pop())
        else:
            self._uniform[node.output] = zero


def _moved(node: Node, mask: Mask) -> Mask | None:
    """The mask after a reshape that adds or removes axes of size 1, or an expansion."""
    before, after = node.operand(0).static_shape, node.output.static_shape
    if node.op == "expand":
        shift = len(after) - len(before)
        return replace(mask, text=mask.text + shift, token=mask.token + shift)
    axes = same_axes(before, after)
    return None if axes is None else replace(mask, text=axes[mask.text], token=axes[mask.token])


def same_axes(before: StaticShape, after: StaticShape) -> dict[int, int] | None:
    """Maps the axes of size other than 1 of a reshape's operand to those of its result; None if they are not the
    same."""
    wide, found = ([(at, dim) for at, dim in enumerate(shape) if not equals(dim, 1)] for shape in (before, after))
    if len(wide) != len(found) or not all(equals(one[1], other[1]) for one, other in zip(wide, found, strict=True)):
        return None
    return {one[0]: other[0] for one, other in zip(wide, found, strict=True)}


def _gathered(node: Node, mask: Mask) -> Mask | None:
    """The mask after a gather_nd whose indices are those of every text and token, as exporters write them."""
    shape = node.operand(0).static_shape
    joined = produced_by(node.inputs[1], "concat")
    if joined is None or node.attrs["batch_dims"] or len(shape) != 2 or len(joined.inputs) != 2:
        return None
    rank = len(joined.output.static_shape)
    if joined.attrs["axis"] % rank != rank - 1:
        return None
    found = (_counted_axis(value, size) for value, size in zip(joined.inputs, shape, strict=True))
    axes = [axis for axis in found if axis is not None]
    if len(set(axes)) < len(shape):
        return None
    return replace(mask, text=axes[mask.text], token=axes[mask.token])


def _counted_axis(value: Value | None, size: int, steps: int = _MOST_STEPS) -> int | None:
    """The axis along which `value` counts from 0 to `size` - 1, the same for all others; None if there is none."""
    node = None if value is None else value.producer
    if node is None or steps == 0:
        return None
    if node.op == "range":
        start, step = number(node.inputs[0]), number(node.inputs[2])
        limit = known_sizes(node.inputs[1])
        counts = start == 0 and step == 1 and limit is not None and equals(limit[0], size)
        return 0 if counts else None
    if node.op not in ("reshape", "expand", "cast", "identity"):
        return None
    axis = _counted_axis(node.inputs[0], size, steps - 1)
    if axis is None or node.op in ("cast", "identity"):
        return axis
    before, after = node.operand(0).static_shape, node.output.static_shape
    if node.op == "expand":
        return axis + len(after) - len(before)
    axes = same_axes(before, after)
    return None if axes is None else axes.get(axis)


def _always_holds(node: Node) -> bool:
    """Whether a >= b (or a > b) holds for all elements, b being a number."""
    limit = number(node.inputs[1])
    least = None if limit is None else _least(node.inputs[0])
    if limit is None or least is None:
        return False
    return bool(least >= limit if node.op == "ge" else least > limit)


def _least(value: Value | None, steps: int = _MOST_STEPS) -> float | None:
    """A lower bound of the elements of `value` that counts upwards; None if it is not known."""
    node = None if value is None else value.producer
    if node is None or steps == 0:
        return None
    if node.op == "range":
        start, step = number(node.inputs[0]), number(node.inputs[2])
        return start if start is not None and step is not None and step > 0 else None
    return _least(node.inputs[0], steps - 1) if node.op in ("reshape", "expand", "cast", "identity") else None


def hides(mask: Mask) -> bool:
    """Whether, added to scores, it leaves those of tokens alone and makes those of padding vanish."""
    return float(mask.zero) <= LOWEST and float(mask.one) == 0.0
