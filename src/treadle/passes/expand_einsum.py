"""Turns sums of products in Einstein's notation into matrix products."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from string import ascii_letters

from treadle import dtypes
from treadle.graph.dim import equals
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, elements
from treadle.graph.value import Value
from treadle.ops.einsum import parsed
from treadle.passes.base import PassContext
from treadle.passes.match import Edit, Rules, sweep

_DOTS = "..."


class ExpandEinsum:
    """%y = einsum(%a, %b) equation=bqhd,bkhd->bhqk  ->  %p = transpose(%a); %q = transpose(%b); %y = matmul(%p, %q)

    Operands are multiplied from the first to the last. Equations with a letter twice in one term, and with axes that
    broadcast stay.
    """

    name = "expand_einsum"

    def run(self, graph: Graph, context: PassContext) -> bool:
        return sweep(graph, context, _RULES)


def _expand(node: Node, edit: Edit) -> Value | None:
    if node.output.dtype not in (dtypes.f32, dtypes.f64):
        return None
    ranks = [len(node.operand(number).static_shape) for number in range(len(node.inputs))]
    terms, out = _spelled(*parsed(node.attrs["equation"], len(node.inputs)), ranks)
    sizes: dict[str, int] = {}
    for number, term in enumerate(terms):
        if len(set(term)) != len(term):
            return None
        for letter, size in zip(term, node.operand(number).static_shape, strict=True):
            if not equals(sizes.setdefault(letter, size), size):
                return None
    products = _Products(edit, sizes)
    value, term = node.operand(0), terms[0]
    for number in range(1, len(terms)):
        later = {*out, *"".join(terms[number + 1 :])}
        value, term = products.product((value, term), (node.operand(number), terms[number]), later)
    value, term = products.summed(value, term, out)
    return products.moved(value, term, out)


def _spelled(terms: Sequence[str], out: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The terms of operands of these `ranks` and that of the result, with letters for the axes that `...` stands for.

    The last axis of each `...` has one letter in all of them.
    """
    counts = [rank - len(term) + len(_DOTS) if _DOTS in term else 0 for term, rank in zip(terms, ranks, strict=True)]
    letters = "".join(each for each in ascii_letters if each not in "".join(terms))[: max(counts)]
    spelled = [term.replace(_DOTS, letters[len(letters) - count :]) for term, count in zip(terms, counts, strict=True)]
    return spelled, out.replace(_DOTS, letters)


class _Products:
    """Operations on values whose axes have letters, of these sizes."""

    def __init__(self, edit: Edit, sizes: dict[str, int]) -> None:
        self._edit = edit
        self._sizes = sizes

    def product(self, left: tuple[Value, str], right: tuple[Value, str], later: Collection[str]) -> tuple[Value, str]:
        """The product of two values and its letters: those of `later` alone, the others are summed."""
        a, first = self.summed(*left, {*right[1], *later})
        b, second = self.summed(*right, {*first, *later})
        shared = [letter for letter in first if letter in second]
        batch = "".join(letter for letter in shared if letter in later)
        inner = "".join(letter for letter in shared if letter not in later)
        rows = "".join(letter for letter in first if letter not in shared)
        columns = "".join(letter for letter in second if letter not in shared)
        a, b = self.moved(a, first, batch + rows + inner), self.moved(b, second, batch + inner + columns)
        outer = self._shape(batch)
        if not inner:
            a = self._edit.reshape(a, (*outer, *self._shape(rows), *(1 for _ in columns)))
            b = self._edit.reshape(b, (*outer, *(1 for _ in rows), *self._shape(columns)))
            return self._edit.add("mul", [a, b]), batch + rows + columns
        height, depth, width = (elements(self._shape(letters)) for letters in (rows, inner, columns))
        factors = [self._edit.reshape(a, (*outer, height, depth)), self._edit.reshape(b, (*outer, depth, width))]
        found = self._edit.add("matmul", factors, {"transpose_a": False, "transpose_b": False})
        return self._edit.reshape(found, self._shape(batch + rows + columns)), batch + rows + columns

    def summed(self, value: Value, term: str, kept: Collection[str]) -> tuple[Value, str]:
        """`value` summed over the axes that are not `kept`, and the letters that are left."""
        axes = tuple(axis for axis, letter in enumerate(term) if letter not in kept)
        if not axes:
            return value, term
        rest = "".join(letter for letter in term if letter in kept)
        return self._edit.add("reduce_sum", [value], {"axes": axes, "keepdims": False}), rest

    def moved(self, value: Value, term: str, wanted: str) -> Value:
        """`value` with its axes in the order of `wanted`."""
        if term == wanted:
            return value
        return self._edit.add("transpose", [value], {"perm": tuple(term.index(letter) for letter in wanted)})

    def _shape(self, term: str) -> StaticShape:
        return tuple(self._sizes[letter] for letter in term)


_RULES: Rules = {"einsum": (_expand,)}
