"""Guards: what a plan assumes of sizes; and the numbers that expressions are for given sizes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from treadle.graph.dim import Atom, DimExpr, RealExpr, split_constant, symbols_of
from treadle.graph.reals import bits_of_number, number_of_bits, single_number
from treadle.graph.terms import text_of
from treadle.records import dataclass

REAL_OPS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "min": min,
    "max": max,
    "of_bits": number_of_bits,
    "single": single_number,
    "sqrt": math.sqrt,
}

_ATOMS: dict[str, Callable[..., int]] = {
    "floordiv": operator.floordiv,
    "min": lambda *sizes: min(sizes),
    "max": lambda *sizes: max(sizes),
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "bits_of_real": bits_of_number,
    "less": operator.lt,
}

ROUNDINGS: dict[str, Callable[..., int]] = {"floor": math.floor, "ceil": math.ceil, "round": round}


@dataclass(frozen=True, slots=True)
class Guard:
    """An assumption about sizes under which a plan is valid.

    `op` says what `holds` or does not: "zero" (`left` is 0), "negative" (`left` is below 0), "less" and "less_equal"
    (of `left` and `right`, real).
    """

    op: str
    left: Any
    right: Any
    holds: bool

    def __str__(self) -> str:
        if self.op == "zero":
            return _relation(self.left, "==" if self.holds else "!=")
        if self.op == "negative":
            return _relation(self.left, "<" if self.holds else ">=")
        signs = ("<", ">=") if self.op == "less" else ("<=", ">")
        return f"{self.left} {signs[not self.holds]} {self.right}"

    @property
    def pins(self) -> bool:
        """Whether it gives a product or sum of symbols one value, so that a plan serves few sizes."""
        if self.op != "zero" or not self.holds:
            return False
        terms, constant = split_constant(self.left)
        return constant != 0 and all(atom.symbol is not None for product, _ in terms for atom in product)

    @property
    def pins_to_one(self) -> bool:
        """Whether it gives one symbol the value 1."""
        terms, constant = split_constant(self.left)
        return self.pins and len(self.symbols) == len(terms) == len(terms[0][0]) == 1 and terms[0][1] == -constant

    @property
    def symbols(self) -> list[DimExpr]:
        """The symbols that it is about."""
        return list(dict.fromkeys((*symbols_of(self.left), *symbols_of(self.right))))


_MIRRORED = {"==": "==", "!=": "!=", "<=": ">=", ">=": "<="}


def _relation(size: int, sign: str) -> str:
    """Returns the text of `size` `sign` 0 with negative terms moved to the right: "length <= 512"."""
    terms, constant = split_constant(size)
    left = tuple((product, number) for product, number in terms if number > 0)
    right = tuple((product, -number) for product, number in terms if number < 0)
    if sign == "<" and not (left and right):
        sign, constant = "<=", constant + 1
    if not left:
        left, right, sign, constant = right, left, _MIRRORED[sign], -constant
    if constant > 0 and right:
        left += (((), constant),)
    elif constant:
        right += (((), -constant),)
    return f"{text_of(left)} {sign} {text_of(right)}"


Functions = Mapping[str, Callable[..., int]]
"""The functions that expressions call, by name."""


class Numbers:
    """The numbers that the expressions of one model are for given sizes. Each part of them is computed once.

    Args:
        sizes: The sizes of the symbols, by name.
        functions: The functions that expressions call, by name.
    """

    def __init__(self, sizes: Mapping[str, int], functions: Functions | None = None) -> None:
        self._sizes = sizes
        self._functions = {**_ATOMS, **(functions or {})}
        self._known: dict[Atom | RealExpr, Any] = {}

    def of(self, size: Any) -> Any:
        """Returns the number that `size` is; one that is no expression as it is."""
        if isinstance(size, RealExpr):
            found = self._known.get(size)
            if found is None:
                found = self._known[size] = float(REAL_OPS[size.op](*map(self.of, size.args)))
            return found
        if not isinstance(size, DimExpr):
            return size
        return sum(number * math.prod(map(self._atom, product)) for product, number in size.terms)

    def _atom(self, atom: Atom) -> int:
        if atom.op == "symbol":
            return self._sizes[atom.args[0]]
        found = self._known.get(atom)
        if found is None:
            found = self._known[atom] = int(self._functions[atom.op](*map(self.of, atom.args)))
        return int(found)

    def satisfy(self, guard: Guard) -> bool:
        """Returns whether they are what `guard` assumes."""
        left, right = self.of(guard.left), self.of(guard.right)
        answers = {"zero": left == 0, "negative": left < 0, "less": left < right, "less_equal": left <= right}
        return bool(answers[guard.op] == guard.holds)


def evaluate(size: Any, values: Mapping[str, int], functions: Functions | None = None) -> Any:
    """Returns the number that `size` is for `values` of the symbols."""
    return Numbers(values, functions).of(size)


def is_assumed(guard: Guard, values: Mapping[str, int], functions: Functions | None = None) -> bool:
    """Whether `guard` holds for `values` of the symbols."""
    return Numbers(values, functions).satisfy(guard)
