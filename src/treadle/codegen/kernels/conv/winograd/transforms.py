"""The one-dimensional transforms of Winograd convolution, for any set of points.

F(m, r) evaluates polynomials at n = m + r - 1 points: 0, +p and -p for each of the given `points`, and infinity,
in this order. What the transforms compute for the two points of a pair shares all but its last step. Without
any points nothing is transformed (n = m = r = 1): an axis along which the kernel has one element.

With stride 2 and three taps, pixels at even places meet the first tap and the last, a convolution F(m, 2) of its own, and
those at odd places the middle one (Huang et al., DWM: A Decomposable Winograd Method for Convolution Acceleration, 2020).
The former are evaluated at 0, the m - 1 given points and infinity, the latter taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.vectors import like, multiply_add


def input_transform(
    k: Kernel, d: Callable[[int], list[ir.Value]], points: Sequence[float], stride: int
) -> Iterator[tuple[int, list[list[ir.Value]]]]:
    """Rows of n pixels -> their values at n points, some neighbouring points at a time: (the first, rows of values).

    `d(i)` gives row i anew each time it is needed.
    """
    return _strided_input(k, d, points) if stride == 2 else _plain_input(k, d, points)


def _strided_input(
    k: Kernel, d: Callable[[int], list[ir.Value]], points: Sequence[float]
) -> Iterator[tuple[int, list[list[ir.Value]]]]:
    """As `input_transform` for stride 2. With y^i standing for row 2 i, the value at a point is prod(y - the others)."""
    finite = [0.0, *points]
    for number in range(len(finite) + 1):
        weights = _product(finite[:number] + finite[number + 1 :])
        places = [i for i, weight in enumerate(weights) if weight]
        yield number, [_weighted_rows(k, [d(2 * i) for i in places], [weights[i] for i in places])]
    for number in range(len(finite)):
        yield len(finite) + 1 + number, [d(2 * number + 1)]


def _plain_input(
    k: Kernel, d: Callable[[int], list[ir.Value]], points: Sequence[float]
) -> Iterator[tuple[int, list[list[ir.Value]]]]:
    """As `input_transform` for stride 1: 0, each pair of points, infinity.

    With y^i standing for row 2 i (for infinity: 2 i + 1), the value at 0 and infinity is prod(y - p^2), at +p and -p it is
    y^(1/2) (y^(1/2) +- p) times the product of the others.
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


def input_transform_row(k: Kernel, d: Sequence[ir.Value], points: Sequence[float], stride: int) -> list[ir.Value]:
    """The values of one row of n pixels at n points."""
    return [row[0] for _, rows in input_transform(k, lambda i: [d[i]], points, stride) for row in rows]


def output_transform(
    k: Kernel, v: Sequence[ir.Value], points: Sequence[float], side: int, stride: int
) -> list[ir.Value]:
    """Values at n points -> m = `side` output pixels: pixel i is the sum of p^i v over the points."""
    if stride == 2:
        return _strided_output(k, v, points)
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


def weight_transform(k: Kernel, taps: Sequence[ir.Value], matrix: Sequence[Sequence[float]]) -> list[ir.Value]:
    """The products of the rows of `matrix` with the taps of a kernel along one axis: its values at the points.

    Rows of neighbouring points +p and -p, which differ in the signs of odd taps, share the sums of odd and of even ones.
    """
    results: list[ir.Value] = []
    for number, row in enumerate(matrix):
        if len(results) > number:
            continue
        even, odd = (_weighted_taps(k, taps, row, start) for start in (0, 1))
        following = matrix[number + 1] if number + 1 < len(matrix) else ()
        if even is None or odd is None:
            results.append(odd if even is None else even)
        elif following and all(
            abs(a - (-1) ** i * b) < 1e-12 for i, (a, b) in enumerate(zip(row, following, strict=False))
        ):
            results += [k.b.fadd(even, odd), k.b.fsub(even, odd)]
        else:
            results.append(k.b.fadd(even, odd))
    return results


def _weighted_taps(k: Kernel, taps: Sequence[ir.Value], row: Sequence[float], start: int) -> ir.Value | None:
    """The sum of weight * tap over every second tap from `start` on; None if all weights are zero."""
    found = [(tap, weight) for tap, weight in list(zip(taps, row, strict=True))[start::2] if weight]
    return _weighted(k, *zip(*found, strict=True)) if found else None


def _strided_output(k: Kernel, v: Sequence[ir.Value], points: Sequence[float]) -> list[ir.Value]:
    """As `output_transform` for stride 2: what pixels at odd places make is added to what those at even places do."""
    side = len(points) + 1
    results = []
    for power in range(side):
        start = v[side + 1 + power]
        for end, value in ((0, v[0]), (side - 1, v[side])):
            start = k.b.fadd(start, value) if power == end else start
        results.append(_weighted(k, v[1:side], [point**power for point in points], start))
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
    """start + sum of weight * value; those of weight 1 and -1 come first, because adding costs no multiplication."""
    total = start
    for value, weight in sorted(
        zip(values, weights, strict=False), key=lambda pair: (not _is_one(pair[1]), not _is_one(-pair[1]))
    ):
        if _is_one(weight):
            total = value if total is None else k.b.fadd(total, value)
        elif _is_one(-weight) and total is not None:
            total = k.b.fsub(total, value)
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
