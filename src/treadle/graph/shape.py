"""Shapes: tuples of dimensions: numbers, expressions (`graph.dim`) or, before specialisation, names of symbols."""

import math
import operator
from collections.abc import Callable, Iterable
from itertools import accumulate, islice
from typing import Any, TypeGuard

from treadle.errors import LimitError, ShapeError
from treadle.graph.dim import at_least, atoms_of, broadcast_size, equals, hint_of, is_expression, least_of, maximum

Dim = int | str
Shape = tuple[Dim, ...]
StaticShape = tuple[int, ...]
"""A shape to compute with: numbers and expressions, which type checkers see as `int`."""

_MAX_ELEMENTS = 1 << 40
_MOST_SAMPLED = 1 << 59
"""Elements for the sizes that expressions are compiled for, so that bytes and costs stay integers of 64 bits."""

MAX_RANK = 64
"""As many dimensions as NumPy's arrays can have."""


_INTS = frozenset((int,))


def are_numbers(shape: Iterable[Any]) -> bool:
    """Whether every dimension is a number."""
    return _INTS.issuperset(map(type, shape))


def is_static(shape: Shape) -> TypeGuard[StaticShape]:
    """Whether every dimension is a number or an expression."""
    return are_numbers(shape) or not any(isinstance(dim, str) for dim in shape)


def is_open(shape: Shape) -> bool:
    """Whether a dimension is an expression."""
    return not are_numbers(shape) and any(not isinstance(dim, str) and is_expression(dim) for dim in shape)


def elements(shape: Iterable[int]) -> int:
    """The product of `shape`'s dimensions, the only place where dimensions are multiplied up.

    Raises ShapeError for a negative dimension, LimitError if there are more than 64 dimensions or 2**40 elements, or if
    there would be if no dimension were 0: strides are as large as that. Binding counts what expressions give; while
    compiling, only what no arithmetic could hold is refused.
    """
    dims = tuple(shape)
    if are_numbers(dims) and min(dims, default=1) > 0 and len(dims) <= MAX_RANK:
        product = math.prod(dims)
        if product <= _MAX_ELEMENTS:
            return product
    total = 1
    lowest: float = 1
    for dim in dims:
        least = least_of(dim)
        if least < 0 and dim < 0:
            raise ShapeError(f"shape {list(dims)} has a negative dimension")
        total *= dim
        if least > 1:
            lowest *= least
    if lowest > _MAX_ELEMENTS:
        span = total if at_least(total, 1) else math.prod(maximum(dim, 1) for dim in dims)
        but = ", not counting dimensions of 0" if total == 0 else ""
        raise LimitError(f"shape {list(dims)} has {span} elements{but}; at most {_MAX_ELEMENTS} are allowed")
    if hint_of(total) > _MOST_SAMPLED:
        raise LimitError(f"shape {list(dims)} has {hint_of(total)} elements for the sizes that it is compiled for")
    if len(dims) > MAX_RANK:
        raise LimitError(f"shape {list(dims)} has {len(dims)} dimensions; at most {MAX_RANK} are allowed")
    return total


def strides_of(shape: StaticShape) -> StaticShape:
    """Steps between neighbours along each axis of a row-major tensor, in elements."""
    if are_numbers(shape) and min(shape, default=1) > 0 and elements(shape[1:]):
        return tuple(accumulate(shape[:0:-1], operator.mul, initial=1))[::-1] if shape else ()
    return tuple(elements(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast(*shapes: StaticShape) -> StaticShape:
    """The common shape of `shapes` by NumPy's rules.

    Raises ShapeError if two dimensions differ and neither is 1.
    """
    if shapes and all(map(are_numbers, shapes)) and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, start=rank - len(shape)):
            common = common_dim(result[axis], dim)
            if common is None:
                texts = " and ".join(str(list(s)) for s in shapes)
                raise ShapeError(f"shapes {texts} do not broadcast: {result[axis]} and {dim} on axis {axis}")
            result[axis] = common
    return tuple(result)


def common_dim(left: int, right: int) -> int | None:
    """The dimension to which two broadcast; None if they differ and neither is 1."""
    if equals(right, 1) or equals(left, right):
        return left
    if equals(left, 1):
        return right
    common = broadcast_size(left, right)
    if common is not None:
        return common
    simpler = min((left, right), key=_complexity)
    choices: list[tuple[bool, Callable[[], bool], int]] = [
        (hint_of(left) == hint_of(right), lambda: left == right, simpler),
        (hint_of(right) == 1, lambda: right == 1, left),
        (hint_of(left) == 1, lambda: left == 1, right),
    ]
    # What is true for the sample sizes is asked first, so that it becomes the only guard.
    choices.sort(key=lambda choice: not choice[0])
    return next((common for _, holds, common in choices if holds()), None)


def _complexity(size: int) -> int:
    return sum(1 for _ in islice(atoms_of(size), 64))


def certain_broadcast(*shapes: StaticShape) -> StaticShape | None:
    """The common shape of `shapes`, if they are known to broadcast; else None. Nothing is assumed."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, start=rank - len(shape)):
            if equals(dim, 1) or equals(dim, result[axis]):
                continue
            if not equals(result[axis], 1):
                return None
            result[axis] = dim
    return tuple(result)


def equal_shapes(left: Shape | None, right: Shape | None) -> bool:
    """Whether two shapes are known, and known to be equal. Nothing is assumed."""
    if left is None or right is None or len(left) != len(right):
        return False
    if are_numbers(left) and are_numbers(right):
        return left == right
    return all(
        one == other if isinstance(one, str) or isinstance(other, str) else equals(one, other)
        for one, other in zip(left, right, strict=True)
    )


def may_be_empty(shape: StaticShape) -> bool:
    """Whether a dimension is not known to be 1 or more. Nothing is assumed."""
    return not all(at_least(dim, 1) for dim in shape)


def sample_elements(shape: StaticShape) -> int:
    """The product of `shape`'s dimensions for the sample sizes. Nothing is assumed."""
    return math.prod(int(hint_of(dim)) for dim in shape)


def around(shape: StaticShape, axis: int) -> tuple[int, int, int]:
    """(elements of the axes before, the size of the axis, elements of those behind): the shape as three axes.

    `axis` counts from the front. Raises as `elements`.
    """
    return elements(shape[:axis]), shape[axis], elements(shape[axis + 1 :])


def normalize_axis(axis: int, rank: int) -> int:
    """`axis` counted from the front. Raises ShapeError unless -rank <= axis < rank."""
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} is out of range for rank {rank}; wanted {-rank} to {rank - 1}")
    return axis + rank if axis < 0 else axis


def text(shape: Shape) -> str:
    """`[1, 3, H, W]`."""
    return "[" + ", ".join(str(dim) for dim in shape) + "]"
