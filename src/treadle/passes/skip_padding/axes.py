"""What the axes of a value count: texts, tokens of a text, or anything else."""

from __future__ import annotations

import math
from collections.abc import Sequence

from treadle.graph.dim import DimExpr, equals, is_expression
from treadle.graph.guard import evaluate
from treadle.graph.shape import StaticShape
from treadle.records import dataclass

TEXT, TOKEN = "text", "token"

Factor = str | int
Axes = tuple[tuple[Factor, ...], ...]
"""For each axis the factors of its size, outermost first: TEXT, TOKEN, or numbers above 1. None for a size of 1."""

_BATCH, _LENGTH = 1_000_003, 1_000_033
"""Primes that stand for the open sizes where a reshape is followed."""


@dataclass(frozen=True, slots=True)
class PaddedSizes:
    """The open sizes of padded texts, and the number of tokens without padding."""

    batch: DimExpr
    length: DimExpr
    tokens: DimExpr

    def axes(self, shape: StaticShape) -> Axes | None:
        """What the axes of a padded value of this `shape` count; None if a size is neither a number nor batch, length,
        or their product."""
        found: list[tuple[Factor, ...]] = []
        for dim in shape:
            if not is_expression(dim):
                found.append((int(dim),) if dim > 1 else ())
            elif equals(dim, self.batch):
                found.append((TEXT,))
            elif equals(dim, self.length):
                found.append((TOKEN,))
            elif equals(dim, self.batch * self.length):
                found.append((TEXT, TOKEN))
            else:
                return None
        return tuple(found)

    def packed(self, axes: Axes) -> StaticShape:
        """The shape of the packed form of a value with these `axes`: one text, which has all tokens."""
        return tuple(
            math.prod(factor for factor in axis if isinstance(factor, int)) * (self.tokens if TOKEN in axis else 1)
            for axis in axes
        )

    def reshaped(self, axes: Axes, shape: StaticShape) -> Axes | None:
        """What the axes of a value with `axes` count after a reshape to `shape`; None if that is not known."""
        if self.axes(shape) == axes:
            return axes
        numbers = [self._number(dim) for dim in shape]
        factors = [factor for axis in axes for factor in axis][::-1]
        result = []
        for number in numbers:
            axis: list[Factor] = []
            rest = number
            while rest is not None and rest > 1 and factors:
                factor = factors.pop()
                size = _size(factor)
                if rest % size:
                    within = math.gcd(rest, size)
                    if within != rest or not isinstance(factor, int):
                        return None
                    factors.append(size // within)
                    factor = size = within
                axis.append(factor)
                rest //= size
            if rest != 1:
                return None
            result.append(tuple(axis))
        return None if factors else tuple(result)

    def _number(self, dim: int) -> int | None:
        """The size `dim` for the primes; None if it depends on other symbols."""
        if not is_expression(dim):
            return int(dim)
        if equals(dim, self.length):
            return _LENGTH
        try:
            return int(evaluate(dim, {str(self.batch): _BATCH, str(self.length): _LENGTH}))
        except KeyError:
            return None


def _size(factor: Factor) -> int:
    return factor if isinstance(factor, int) else _BATCH if factor == TEXT else _LENGTH


def is_padded(axes: Axes) -> bool:
    """Whether the value has an entry for each token."""
    return any(TOKEN in axis for axis in axes)


def is_plain(axis: Sequence[Factor]) -> bool:
    """Whether an axis counts neither texts nor tokens."""
    return TEXT not in axis and TOKEN not in axis


def joined(all_axes: Sequence[Axes]) -> Axes | None:
    """The axes of what values with these axes broadcast to; None if they count different things along one axis."""
    rank = max(map(len, all_axes))
    result: list[tuple[Factor, ...]] = [()] * rank
    for axes in all_axes:
        for at, axis in enumerate(axes, start=rank - len(axes)):
            if axis and result[at] and axis != result[at]:
                return None
            result[at] = result[at] or axis
    return tuple(result)


def permuted(axes: Axes, perm: Sequence[int] | None) -> Axes:
    """`axes` in the order of `perm`."""
    return axes if perm is None else tuple(axes[at] for at in perm)
