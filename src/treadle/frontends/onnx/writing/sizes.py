"""Sizes that follow from those of the inputs, as arithmetic on ONNX's Shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from treadle.dtypes import i64
from treadle.frontends.onnx.types import NUMBERS
from treadle.frontends.onnx.writing.writer import Unwritable, Writer
from treadle.graph.dim import Atom, DimExpr, is_expression
from treadle.graph.node import Node
from treadle.graph.value import Value


def note_places(inputs: Sequence[Value], w: Writer) -> None:
    """Note where the open dimensions of `inputs` are."""
    for value in inputs:
        for axis, size in enumerate(value.shape or ()):
            name = symbol_name(size)
            if name is not None:
                w.places.setdefault(name, (value, axis))


def _written(size: Any, w: Writer) -> str:
    """Return the name of `size`, an int64 of shape [1]. Raises Unwritable for what is no sum of products."""
    if not is_expression(size):
        return w.integers([int(size)])
    if not isinstance(size, DimExpr):
        raise Unwritable("a number follows from sizes by arithmetic of floats")
    found = w.sizes.get(size)
    if found is None:
        terms = [_term(product, number, w) for product, number in size.terms]
        found = w.sizes[size] = reduce(lambda left, right: w.emit("Add", [left, right]), terms)
    return found


def _term(product: Sequence[Atom], number: int, w: Writer) -> str:
    factors = [_atom(atom, w) for atom in product]
    if number != 1 or not factors:
        factors.append(w.integers([number]))
    return reduce(lambda left, right: w.emit("Mul", [left, right]), factors)


def _atom(atom: Atom, w: Writer) -> str:
    if atom.op == "symbol":
        place = w.places.get(str(atom.args[0]))
        if place is None:
            raise Unwritable("a size depends on data")
        value, axis = place
        return w.emit("Shape", [w.name(value)], start=axis, end=axis + 1)
    if atom.op == "floordiv":  # Div truncates, which is the same for what is not negative
        if any(_least(each) < 0 for each in atom.args):
            raise Unwritable("a size follows from dividing what may be negative")
        return w.emit("Div", [_written(each, w) for each in atom.args])
    if atom.op in ("min", "max"):
        return w.emit(atom.op.capitalize(), [_written(each, w) for each in atom.args])
    raise Unwritable(f"a size follows from others by {atom.op}, for which ONNX has no integers")


def _least(size: Any) -> float:
    return size.least if isinstance(size, DimExpr) else size


def symbol_name(size: object) -> str | None:
    """Return the name of a size that is one symbol; None for others."""
    if isinstance(size, DimExpr) and len(size.terms) == 1:
        (product, number), *_ = size.terms
        if number == 1 and len(product) == 1 and product[0].op == "symbol":
            return str(product[0].args[0])
    return None


def write_sizes(node: Node, w: Writer) -> None:
    """Write a `sizes` node: its elements, in its shape and dtype."""
    if not node.attrs["dtype"].is_integer:
        raise Unwritable("its numbers are fractions of sizes")
    steps: list[tuple[str, list[str], dict[str, Any]]] = []
    parts = [_written(each, w) for each in node.attrs["elements"]] or [w.integers([])]
    if len(parts) > 1:
        steps.append(("Concat", parts[1:], {"axis": 0}))
    if len(node.attrs["shape"]) != 1:
        steps.append(("Reshape", [w.integers(node.attrs["shape"])], {}))
    if node.attrs["dtype"] != i64:
        steps.append(("Cast", [], {"to": NUMBERS[node.attrs["dtype"]]}))
    made, target = parts[0], [w.name(node.output)]
    for number, (op, others, attrs) in enumerate(steps or [("Identity", [], {})], start=1):
        made = w.emit(op, [made, *others], target if number >= len(steps) else [], **attrs)
