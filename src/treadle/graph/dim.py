"""Sizes: numbers, or integer expressions over named symbols in a canonical form.

Code that computes with sizes runs on both alike. Arithmetic on an expression gives an expression. A comparison gives a
bool: `graph.facts` proves it, or assumes it as it is for a sample size and records a guard. What needs a number
(`int()`, `range()`) pins the expression to its sample. Type checkers see expressions as `int` and `float`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, TypeGuard

import numpy as np

from treadle.graph.terms import Terms, constant_of, text_of, without_constant

if TYPE_CHECKING:
    Integer: TypeAlias = int
    Real: TypeAlias = float
else:
    Integer = Real = object


class Rules(Protocol):
    """What expressions of one model share: their canonical form, what is known of them, and what was assumed."""

    def add(self, left: int, right: int, times: int = 1) -> int:
        """Returns left + times * right."""
        ...

    def multiply(self, left: int, right: int) -> int:
        """Returns left * right."""
        ...

    def divide(self, left: int, right: int) -> int:
        """Returns left // right. Raises ZeroDivisionError if `right` is 0."""
        ...

    def real(self, op: str, *args: float) -> float:
        """Returns the real expression of `op`."""
        ...

    def rounded(self, op: str, value: float) -> int:
        """Returns `value` rounded by `op` ("floor", "ceil" or "round")."""
        ...

    def call(self, op: str, args: tuple[Any, ...], hint: int, least: float) -> int:
        """Returns what the native function `op` gives for `args` at binding: `hint` for the sample sizes."""
        ...

    def is_zero(self, value: int) -> bool:
        """Whether `value` is 0: proved or assumed."""
        ...

    def is_known_zero(self, value: int) -> bool:
        """Whether `value` is proved to be 0, or was assumed to be."""
        ...

    def is_negative(self, value: int) -> bool:
        """Whether `value` is below 0: proved or assumed."""
        ...

    def is_less(self, left: float, right: float, *, or_equal: bool) -> bool:
        """Whether one real expression is less than another: assumed."""
        ...

    def extreme(self, op: str, sizes: tuple[int, ...]) -> int:
        """Returns the smallest (`op` "min") or largest ("max") of `sizes`."""
        ...

    def broadcast(self, left: int, right: int) -> int | None:
        """Returns the size to which two broadcast, if nothing must be assumed for that; else None."""
        ...

    def pin(self, value: int) -> int:
        """Returns the number that `value` is assumed to be."""
        ...


class Atom:
    """A factor of a product in an expression: a symbol, or an operation that sums of products cannot express.

    `op` is "symbol" (`args`: its name), "floordiv", "min", "max", "floor", "ceil", "round" (of a real expression), or
    the name of a native function that binding calls. `hint` is its value for the sample sizes. `symbol` is the
    expression of a symbol's atom.
    """

    __slots__ = ("args", "hint", "least", "most", "op", "serial", "symbol")

    def __init__(self, serial: int, op: str, args: tuple[Any, ...], hint: int, least: float, most: float) -> None:
        self.serial = serial
        self.op = op
        self.args = args
        self.hint = hint
        self.least = least
        self.most = most
        self.symbol: DimExpr | None = None

    def __str__(self) -> str:
        if self.op == "symbol":
            return str(self.args[0])
        if self.op == "floordiv":
            return f"{_operand(self.args[0])}//{_operand(self.args[1])}"
        return f"{self.op}({', '.join(map(str, self.args))})"


class DimExpr(Integer):
    """A size that is not known before binding: a sum of integer multiples of products of atoms.

    Equal expressions of one model are one object. `hint` is the value for the sample sizes; `least` and `most` are
    bounds that hold for every size. `normal` is what `facts.normal` has found.
    """

    __slots__ = ("hint", "least", "most", "normal", "rules", "terms")

    def __init__(self, rules: Rules, terms: Terms[Atom], hint: int, bounds: tuple[float, float]) -> None:
        self.rules = rules
        self.terms, self.hint = terms, hint
        self.least, self.most = bounds
        self.normal: tuple[Terms[Atom], int, int] | None = None

    def __new__(cls, *_: Any) -> Self:
        """Make an instance without int's constructor, which type checkers expect."""
        return object.__new__(cls)

    def __add__(self, other: int) -> int:
        return self.rules.add(self, other) if _is_size(other) else _real(self, "add", self, other)

    def __radd__(self, other: int) -> int:
        return self.rules.add(self, other) if _is_size(other) else _real(self, "add", other, self)

    def __sub__(self, other: int) -> int:
        return self.rules.add(self, other, -1) if _is_size(other) else _real(self, "sub", self, other)

    def __rsub__(self, other: int) -> int:
        return self.rules.add(other, self, -1) if _is_size(other) else _real(self, "sub", other, self)

    def __mul__(self, other: int) -> int:
        return self.rules.multiply(self, other) if _is_size(other) else _real(self, "mul", self, other)

    def __rmul__(self, other: int) -> int:
        return self.rules.multiply(self, other) if _is_size(other) else _real(self, "mul", other, self)

    def __floordiv__(self, other: int) -> int:
        return self.rules.divide(self, other) if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: int) -> int:
        return self.rules.divide(other, self) if _is_size(other) else NotImplemented

    def __mod__(self, other: int) -> int:
        return self - other * (self // other) if _is_size(other) else NotImplemented

    def __rmod__(self, other: int) -> int:
        return other - self * (other // self) if _is_size(other) else NotImplemented

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __rdivmod__(self, other: int) -> tuple[int, int]:
        return other // self, other % self

    def __truediv__(self, other: int) -> float:
        return self.rules.real("div", self, other) if _is_number(other) else NotImplemented

    def __rtruediv__(self, other: int) -> float:
        return self.rules.real("div", other, self) if _is_number(other) else NotImplemented

    def __neg__(self) -> int:
        return self.rules.multiply(self, -1)

    def __pos__(self) -> int:
        return self

    def __abs__(self) -> int:
        return maximum(self, -self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, float | RealExpr):
            return _real_equal(self, other)
        return self.rules.is_zero(self.rules.add(self, other, -1)) if _is_size(other) else NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __lt__(self, other: int) -> bool:
        if not _is_size(other):
            return self.rules.is_less(self, other, or_equal=False)
        return self.rules.is_negative(self - other)

    def __le__(self, other: int) -> bool:
        if not _is_size(other):
            return self.rules.is_less(self, other, or_equal=True)
        return not self.rules.is_negative(other - self)

    def __gt__(self, other: int) -> bool:
        if not _is_size(other):
            return self.rules.is_less(other, self, or_equal=False)
        return self.rules.is_negative(other - self)

    def __ge__(self, other: int) -> bool:
        if not _is_size(other):
            return self.rules.is_less(other, self, or_equal=True)
        return not self.rules.is_negative(self - other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return not self.rules.is_zero(self)

    def __index__(self) -> int:
        return self.rules.pin(self)

    def __int__(self) -> int:
        return self.rules.pin(self)

    def __trunc__(self) -> int:
        return self

    def __floor__(self) -> int:
        return self

    def __ceil__(self) -> int:
        return self

    def __round__(self, digits: Any = None) -> int:
        return self

    def __float__(self) -> float:
        return float(self.rules.pin(self))

    def __str__(self) -> str:
        return text_of(self.terms)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    __repr__ = __str__


class RealExpr(Real):
    """A real number, such as a cost, that is computed from sizes. `hint` is its value for the sample sizes."""

    __slots__ = ("args", "hint", "op", "rules")

    def __init__(self, rules: Rules, op: str, args: tuple[Any, ...], hint: float) -> None:
        self.rules = rules
        self.op = op
        self.args = args
        self.hint = hint

    def __new__(cls, *_: Any) -> Self:
        """Make an instance without float's constructor, which type checkers expect."""
        return object.__new__(cls)

    def __add__(self, other: float) -> float:
        return self.rules.real("add", self, other)

    def __radd__(self, other: float) -> float:
        return self.rules.real("add", other, self)

    def __sub__(self, other: float) -> float:
        return self.rules.real("sub", self, other)

    def __rsub__(self, other: float) -> float:
        return self.rules.real("sub", other, self)

    def __mul__(self, other: float) -> float:
        return self.rules.real("mul", self, other)

    def __rmul__(self, other: float) -> float:
        return self.rules.real("mul", other, self)

    def __truediv__(self, other: float) -> float:
        return self.rules.real("div", self, other)

    def __rtruediv__(self, other: float) -> float:
        return self.rules.real("div", other, self)

    def __neg__(self) -> float:
        return self.rules.real("sub", 0.0, self)

    def __eq__(self, other: object) -> bool:
        return self is other or (_real_equal(self, other) if _is_number(other) else NotImplemented)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: float) -> bool:
        return self.rules.is_less(self, other, or_equal=False)

    def __le__(self, other: float) -> bool:
        return self.rules.is_less(self, other, or_equal=True)

    def __gt__(self, other: float) -> bool:
        return self.rules.is_less(other, self, or_equal=False)

    def __ge__(self, other: float) -> bool:
        return self.rules.is_less(other, self, or_equal=True)

    def __hash__(self) -> int:
        return id(self)

    def __floor__(self) -> int:
        return self.rules.rounded("floor", self)

    def __ceil__(self) -> int:
        return self.rules.rounded("ceil", self)

    def __round__(self, digits: Any = None) -> int:
        return self.rules.rounded("round", self)

    def __float__(self) -> float:
        for symbol in symbols_of(self):
            self.rules.pin(symbol)
        return self.hint

    def __int__(self) -> int:
        return int(float(self))

    def __bool__(self) -> bool:
        return self != 0.0

    def __str__(self) -> str:
        sign = _SIGNS.get(self.op)
        if sign is None:
            return f"{self.op}({', '.join(map(str, self.args))})"
        return f" {sign} ".join(map(_operand, self.args))

    __repr__ = __str__


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}

# Tuples, because `A | B` makes a new object wherever it is evaluated.
_EXPRESSIONS = (DimExpr, RealExpr)
_INTEGERS = (int, np.integer)
_NUMBERS = (int, float, np.number, DimExpr, RealExpr)


def is_expression(size: float) -> bool:
    """Whether `size` is an expression, not a number."""
    return type(size) is DimExpr or type(size) is RealExpr


def hint_of(size: float) -> float:
    """Returns the value of `size` for the sample sizes; a number itself. Nothing is assumed."""
    return size.hint if isinstance(size, _EXPRESSIONS) else size


def equals(left: int, right: int) -> bool:
    """Whether two sizes are equal for every value of the symbols, or were assumed to be. Nothing else is assumed."""
    size = left if isinstance(left, DimExpr) else right
    if left is right or not isinstance(size, DimExpr):
        return left == right
    return size.rules.is_known_zero(size.rules.add(left, right, -1))


def at_least(size: int, number: int) -> bool:
    """Whether `size` is `number` or more for every value of the symbols. Nothing is assumed."""
    return size.least >= number if isinstance(size, DimExpr) else size >= number


def least_of(size: int) -> float:
    """Returns the lower bound of `size` for all values of the symbols."""
    return size.least if isinstance(size, DimExpr) else size


def at_most(size: int, number: int) -> bool:
    """Whether `size` is `number` or less for every value of the symbols. Nothing is assumed."""
    return size.most <= number if isinstance(size, DimExpr) else size <= number


def divides(number: int, size: int) -> bool:
    """Whether `number` divides `size` for every value of the symbols. Nothing is assumed."""
    return type(remainder := size % number) is not DimExpr and remainder == 0


def ceil_div(size: int, number: int) -> int:
    """Returns size / number, rounded up."""
    return -(-size // number)


def minimum(*sizes: int) -> int:
    """Returns the smallest of `sizes`, as an expression if one is. Nothing is assumed."""
    smallest: int = _extreme(min, "min", sizes)
    return smallest


def maximum(*sizes: int) -> int:
    """Returns the largest of `sizes`, as an expression if one is. Nothing is assumed."""
    largest: int = _extreme(max, "max", sizes)
    return largest


def real_minimum(*numbers: float) -> float:
    """Returns the smallest of real `numbers`, as an expression if one is. Nothing is assumed."""
    smallest: float = _extreme(min, "min", numbers)
    return smallest


def real_maximum(*numbers: float) -> float:
    """Returns the largest of real `numbers`, as an expression if one is. Nothing is assumed."""
    largest: float = _extreme(max, "max", numbers)
    return largest


def computed(op: str, function: Callable[..., int], args: tuple[float, ...], *, least: float = -math.inf) -> int:
    """Returns function(*args); an expression if one of `args` is, which binding computes by the native function `op`.

    Args:
        op: The name by which the binder knows the function.
        function: The same function for numbers.
        args: Integers and reals.
        least: A lower bound of its results.
    """
    rules = next((arg.rules for arg in args if isinstance(arg, DimExpr | RealExpr)), None)
    if rules is None:
        return function(*args)
    return rules.call(op, args, function(*map(hint_of, args)), least)


def broadcast_size(left: int, right: int) -> int | None:
    """Returns the size to which two broadcast that may differ, if nothing must be assumed for that; else None."""
    size = left if isinstance(left, DimExpr) else right
    return size.rules.broadcast(left, right) if isinstance(size, DimExpr) else None


def floor_int(number: float) -> int:
    """Returns `number` rounded down."""
    return math.floor(number)


def symbols_of(size: float) -> list[DimExpr]:
    """Returns the symbols that `size` is computed from, each once."""
    return list(dict.fromkeys(atom.symbol for atom in atoms_of(size) if atom.symbol is not None))


def atoms_of(size: Any) -> Iterator[Atom]:
    """Yields the atoms of `size` and those inside them, each after what it is made of; some more than once."""
    if isinstance(size, DimExpr):
        for product, _ in size.terms:
            for atom in product:
                for each in atom.args:
                    yield from atoms_of(each)
                yield atom
    elif isinstance(size, RealExpr):
        for each in size.args:
            yield from atoms_of(each)


def split_constant(size: int) -> tuple[Terms[Atom], int]:
    """Returns the terms of `size` but the constant one, and the constant."""
    if isinstance(size, DimExpr):
        return without_constant(size.terms), constant_of(size.terms)
    return (), size


def _extreme(function: Callable[..., Any], op: str, sizes: tuple[Any, ...]) -> Any:
    rules = next((size.rules for size in sizes if isinstance(size, _EXPRESSIONS)), None)
    if rules is None:
        return function(sizes)
    if all(_is_size(size) for size in sizes):
        return rules.extreme(op, sizes)
    result = sizes[0]
    for size in sizes[1:]:
        result = rules.real(op, result, size)
    return result


def _operand(size: Any) -> str:
    text = str(size)
    return text if text.replace(".", "").isalnum() or text.isidentifier() else f"({text})"


def _is_size(value: object) -> TypeGuard[int]:
    kind = type(value)
    return kind is int or kind is DimExpr or isinstance(value, _INTEGERS)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, _NUMBERS)


def _real(size: DimExpr, op: str, left: Any, right: Any) -> Any:
    return size.rules.real(op, left, right) if _is_number(left) and _is_number(right) else NotImplemented


def _real_equal(left: Any, right: Any) -> bool:
    return bool(left <= right) and bool(right <= left)
