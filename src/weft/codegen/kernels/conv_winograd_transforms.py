"""The one-dimensional transforms of Winograd convolution, for any set of points.

F(m, r) evaluates polynomials at n = m + r - 1 points: 0, +p and -p for each of the given `points`, and infinity,
in this order. What the transforms compute for the two points of a pair shares all but its last step. Without
any points nothing is transformed (n = m = r = 1): an axis along which the kernel has one element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from llvmlite import ir

from weft.codegen.emit.kernel import Kernel
from weft.codegen.emit.vectors import like, multiply_add


def input_transform(
    k: Kernel, d: Callable[[int], list[ir.Value]], points: Sequence[float]
) -> Iterator[tuple[int, list[list[ir.Value]]]]:
    """Rows of n pixels -> their values at n points: (first point, rows of values) for 0, for each pair, for infinity.

    `d(i)` gives row i anew each time it is needed. With y^i standing for row 2 i (for infinity: 2 i + 1), the value
    at 0 and infinity is prod(y - p^2), at +p and -p it is y^(1/2) (y^(1/2) +- p) times the product of the others.
    """
    if not points:
        yield 0, [d(0)]
        return
    squares = [point * point for point in points]
    whole = _product(squares)
    last = 2 * len(points) + 1
    yield 0, [_weighted_rows(k, [d(2 * i) for i in range(len(whole))], whole)]
    for number, point in enumerate(points):
        rest = _product(squares[:number] + squares[number + 1 :])
        even = _weighted_rows(k, [d(2 * i + 2) for i in range(len(rest))], rest)
        odd = _weighted_rows(k, [d(2 * i + 1) for i in range(len(rest))], rest)
        pairs = [_plus_minus(k, e, o, point) for e, o in zip(even, odd, strict=True)]
        yield 1 + 2 * number, [[plus for plus, _ in pairs], [minus for _, minus in pairs]]
    yield last, [_weighted_rows(k, [d(2 * i + 1) for i in range(len(whole))], whole)]


def input_transform_row(k: Kernel, d: Sequence[ir.Value], points: Sequence[float]) -> list[ir.Value]:
    """The values of one row of n pixels at n points."""
    return [row[0] for _, rows in input_transform(k, lambda i: [d[i]], points) for row in rows]


def output_transform(k: Kernel, v: Sequence[ir.Value], points: Sequence[float], side: int) -> list[ir.Value]:
    """Values at n points -> m = `side` output pixels: pixel i is the sum of p^i v over the points."""
    if not points:
        return list(v)
    sums = [k.b.fadd(v[1 + 2 * i], v[2 + 2 * i]) for i in range(len(points))]
    differences = [k.b.fsub(v[1 + 2 * i], v[2 + 2 * i]) for i in range(len(points))]
    results = []
    for power in range(side):
        terms = differences if power % 2 else sums
        start = {0: v[0], side - 1: v[-1]}.get(power)
        results.append(_weighted(k, terms, [point**power for point in points], start))
    return results


def _weighted_rows(k: Kernel, rows: Sequence[Sequence[ir.Value]], weights: Sequence[float]) -> list[ir.Value]:
    """The sum of weight * row, column by column."""
    return [_weighted(k, column, weights) for column in zip(*rows, strict=True)]


def _product(roots: Sequence[float]) -> list[float]:
    """The coefficients of prod(y - root), constant term first."""
    coefficients = [1.0]
    for root in roots:
        shifted = [0.0, *coefficients]
        coefficients = [s - root * c for s, c in zip(shifted, [*coefficients, 0.0], strict=True)]
    return coefficients


def _weighted(
    k: Kernel, values: Sequence[ir.Value], weights: Sequence[float], start: ir.Value | None = None
) -> ir.Value:
    """start + sum of weight * value; those of weight 1 come first, because adding costs no multiplication."""
    total = start
    for value, weight in sorted(zip(values, weights, strict=False), key=lambda pair: not _is_one(pair[1])):
        if _is_one(weight):
            total = value if total is None else k.b.fadd(total, value)
        elif total is None:
            total = k.b.fmul(value, like(value, weight))
        else:
            total = multiply_add(k, value, like(value, weight), total)
    assert total is not None, "there is at least one value"
    return total


def _plus_minus(k: Kernel, even: ir.Value, odd: ir.Value, point: float) -> list[ir.Value]:
    """even + point * odd, even - point * odd"""
    if _is_one(point):
        return [k.b.fadd(even, odd), k.b.fsub(even, odd)]
    return [multiply_add(k, odd, like(odd, sign * point), even) for sign in (1.0, -1.0)]


def _is_one(weight: float) -> bool:
    """Whether `weight` is 1, up to the rounding of the roots it was made of."""
    return abs(weight - 1.0) < 1e-12
