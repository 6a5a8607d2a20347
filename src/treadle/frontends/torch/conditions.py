"""Conditions on the sizes of inputs under which an exported program is valid, as PyTorch stores them: Python text.

The text comes from a file, so it is parsed and computed here, never run.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from treadle.errors import ShapeError
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.symbols import power, truncated
from treadle.graph.dim import floor_int, is_expression, maximum, minimum
from treadle.graph.reals import root
from treadle.graph.shape import StaticShape

MOST_CHARACTERS = 1 << 12
"""The longest text of a condition."""

MOST_BITS = 1 << 12
"""The largest number of bits of a power."""


def _power(base: Any, exponent: Any) -> Any:
    """Return base ** exponent. Raises Unsupported for results that are too large."""
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > MOST_BITS:
        raise Unsupported(f"its condition on sizes has a power of more than {MOST_BITS} bits")
    return power(base, exponent)


def _as_float(number: Any) -> Any:
    return number if is_expression(number) else float(number)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Mult: operator.mul,
    ast.Pow: _power,
    ast.Sub: operator.sub,
}
_RELATIONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Max": maximum,
    "Min": minimum,
    "float": _as_float,
    "math.ceil": math.ceil,
    "math.floor": floor_int,
    "math.sqrt": root,
    "math.trunc": truncated,
    "max": maximum,
    "min": minimum,
    "torch.sym_float": _as_float,
}
"""The functions that PyTorch writes into conditions, by name."""


class Conditions:
    """The conditions of one program."""

    def __init__(self, texts: list[str], paths: Mapping[str, str]) -> None:
        """Parse `texts`. `paths` has the name of each input by how conditions write it: "['x']" or "['x'][0]".

        Raises Unsupported for a text that is no expression.
        """
        self._paths = paths
        self._parsed = {text: tree for text in texts if not _is_about_broadcasting(tree := _parsed(text))}

    def check(self, shapes: Mapping[str, StaticShape]) -> None:
        """Check the conditions for the `shapes` of the inputs; what is unknown is assumed, by guards.

        Raises ShapeError if one does not hold, Unsupported if it cannot be computed.
        """
        for text, tree in self._parsed.items():
            try:
                holds = self._value(tree, shapes)
            except (ArithmeticError, RecursionError, TypeError) as error:
                raise Unsupported(f"its condition on sizes {text[:80]!r} has no value: {error}") from None
            if not holds:
                raise ShapeError(
                    f"the exported program computes other results than its module except where {text}: "
                    "PyTorch's exporter decided by the example's sizes; pass such sizes, or export it for these"
                )

    def _value(self, node: ast.expr, shapes: Mapping[str, StaticShape]) -> Any:
        rule = _FORMS.get(type(node))
        found = None if rule is None else rule(node, lambda inner: self._value(inner, shapes))
        if found is None and isinstance(node, ast.Subscript):
            found = self._size(node, shapes)
        if found is None:
            raise Unsupported(f"its condition on sizes has {ast.unparse(node)!r}, for which there is no equivalent")
        return found

    def _size(self, node: ast.Subscript, shapes: Mapping[str, StaticShape]) -> int:
        """Return the size that `L['x'].size()[axis]` names."""
        call, axis = node.value, node.slice
        shape, place = None, axis.value if isinstance(axis, ast.Constant) else None
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "size":
            shape = shapes.get(self._paths.get(ast.unparse(call.func.value).removeprefix("L"), ""))
        if shape is None or not isinstance(place, int) or not 0 <= place < len(shape):
            raise Unsupported(f"its condition on sizes names {ast.unparse(node)!r}, which is no size of an input")
        return shape[place]


def _parsed(text: str) -> ast.expr:
    """Return the expression `text`. Raises Unsupported if it is none, or too long."""
    try:
        if len(text) <= MOST_CHARACTERS:
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise Unsupported(f"its condition on sizes is none that PyTorch writes: {text[:80]!r}")


def _is_about_broadcasting(node: ast.expr) -> bool:
    """Return whether a condition says that a size is not 0 or 1.

    PyTorch adds one for each size that could be broadcast. The rules of ops look at the sizes themselves.
    """
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.NotEq):
        return False
    return any(isinstance(side, ast.Constant) and side.value in (0, 1) for side in (node.left, *node.comparators))


Evaluate = Callable[[ast.expr], Any]


def _constant(node: ast.Constant, _: Evaluate) -> Any:
    return node.value if isinstance(node.value, bool | int | float) else None


def _unary(node: ast.UnaryOp, value: Evaluate) -> Any:
    if isinstance(node.op, ast.Not):
        return not value(node.operand)
    return -value(node.operand) if isinstance(node.op, ast.USub) else None


def _binary(node: ast.BinOp, value: Evaluate) -> Any:
    function = _BINARY.get(type(node.op))
    return None if function is None else function(value(node.left), value(node.right))


def _all_or_any(node: ast.BoolOp, value: Evaluate) -> bool:
    return (all if isinstance(node.op, ast.And) else any)(map(value, node.values))


def _choice(node: ast.IfExp, value: Evaluate) -> Any:
    return value(node.body) if value(node.test) else value(node.orelse)


def _compared(node: ast.Compare, value: Evaluate) -> bool | None:
    relations = [_RELATIONS.get(type(op)) for op in node.ops]
    sides = [value(node.left), *map(value, node.comparators)]
    if None in relations:
        return None
    return all(each(*two) for each, two in zip(relations, pairwise(sides), strict=True) if each is not None)


def _called(node: ast.Call, value: Evaluate) -> Any:
    function = None if node.keywords else _FUNCTIONS.get(ast.unparse(node.func))
    return None if function is None else function(*map(value, node.args))


_FORMS: dict[type[ast.expr], Callable[[Any, Evaluate], Any]] = {
    ast.BinOp: _binary,
    ast.BoolOp: _all_or_any,
    ast.Call: _called,
    ast.Compare: _compared,
    ast.Constant: _constant,
    ast.IfExp: _choice,
    ast.UnaryOp: _unary,
}
"""Form of an expression -> what computes it, given what computes its parts; the result is None for unknown ones."""
