"""The one-dimensional transforms of Winograd convolution, for any set of points.

F(m, r) evaluates polynomials at n = m + r - 1 points: 0, +p and -p for each of the given `points`, and infinity, in
this order. The transforms of +p and -p share all but the last step. Without points nothing is transformed
(n = m = r = 1): this is an axis along which the kernel has one element.

With stride 2 and three taps, even pixels are multiplied with the first and the last tap, which is a convolution
F(m, 2), and odd pixels with the middle tap (Huang et al., DWM: A Decomposable Winograd Method for Convolution
Acceleration, 2020). Even pixels are evaluated at 0, the m - 1 given points and infinity; odd pixels are not
transformed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.vectors import like, multiply_add


def input_transform(
    k: Kernel, d: Callable[[int], list[ir.Value]], points: Sequence[float], stride: int, spare: Sequence[float] = ()
) -> Iterator[tuple[int, list[list[ir.Value]]]]:
    """Yields the values of rows of n pixels at n points, for some neighbouring points at a time.

    An item is the first of these points, and rows of values. `d(i)` emits the loads of row i, each time it is called.
    Weights that were transformed for `spare` points too were divided by the differences to these: values are multiplied
    with them.
    """
    return _strided_input(k, d, points) if stride == 2 else _plain_input(k, d, points, spare)


def _strided_input(
    k: Kernel, d: Callable[[int], list[ir.Value]], points: Sequence[float]
) -> Iterator[tuple[int, list[list[ir.Value]]]]:
    """`input_transform` for stride 2. If y^i stands for row 2 i, a point's value is the product of y - the others."""
    finite = [0.0, *points]
    for number in range(len(finite) + 1):
        weights = _product(finite[:number] + finite[number + 1 :])
        present = [i for i, weight in enumerate(weights) if weight]
        yield number, [_weighted_rows(k, [d(2 * i) for i in present], [weights[i] for i in present])]
    for number in range(len(finite)):
        yield len(finite) + 1 + number, [d(2 * number + 1)]


def _plain_input(
    k: Kernel, d: Callable[[int], list[ir.Value]], points: Sequence[float], spare: Sequence[float]
) -> Iterator[tuple[int, list[list[ir.Value]]]]:
    """`input_transform` for stride 1: 0, +p and -p of each point, infinity.

    If y^i stands for row 2 i (for infinity: 2 i + 1), the value at 0 and infinity is the product of all y - p^2; at +p
    and -p it is y^(1/2) (y^(1/2) +- p) times the product of the others.
    """
    if not points:
        yield 0, [d(0)]
        return
    squares = [point * point for point in points]
    whole = _product(squares)
    last = 2 * len(points) + 1
    at_zero = [_differences(0.0, spare) * weight for weight in whole]
    yield 0, [_weighted_rows(k, [d(2 * i) for i in range(len(whole))], at_zero)]
    for number, point in enumerate(points):
        rest = _product(squares[:number] + squares[number + 1 :])
        scale = _differences(point, spare)
        even = _weighted_rows(k, [d(2 * i + 2) for i in range(len(rest))], [scale * weight for weight in rest])
        odd = _weighted_rows(k, [d(2 * i + 1) for i in range(len(rest))], rest)
        both = [_plus_minus(k, e, o, scale * point) for e, o in zip(even, odd, strict=True)]
        yield 1 + 2 * number, [[plus for plus, _ in both], [minus for _, minus in both]]
    yield last, [_weighted_rows(k, [d(2 * i + 1) for i in range(len(whole))], whole)]


def _differences(point: float, spare: Sequence[float]) -> float:
    """Returns the product of the differences of `point` to +p and -p of all `spare` points."""
    return prod(point * point - other * other for other in spare)


def input_transform_row(
    k: Kernel, d: Sequence[ir.Value], points: Sequence[float], stride: int, spare: Sequence[float] = ()
) -> list[ir.Value]:
    """Returns the values of one row of n pixels at n points; `spare` is as in `input_transform`."""
    return [row[0] for _, rows in input_transform(k, lambda i: [d[i]], points, stride, spare) for row in rows]


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
    """Returns the values of a kernel at the points along one axis: the products of `matrix` with its taps.

    The rows of +p and -p differ in the signs of odd taps, so they share the sums of odd and of even taps.
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
    """Returns the sum of weight * tap over every second tap from `start` on; None if all weights are zero."""
    terms = [(tap, weight) for tap, weight in list(zip(taps, row, strict=True))[start::2] if weight]
    return _weighted(k, *zip(*terms, strict=True)) if terms else None


def _strided_output(k: Kernel, v: Sequence[ir.Value], points: Sequence[float]) -> list[ir.Value]:
    """`output_transform` for stride 2: the products of even pixels are transformed, those of odd pixels added."""
    side = len(points) + 1
    results = []
    for power in range(side):
        start = v[side + 1 + power]
        for end, value in ((0, v[0]), (side - 1, v[side])):
            start = k.b.fadd(start, value) if power == end else start
        results.append(_weighted(k, v[1:side], [point**power for point in points], start))
    return results


def _weighted_rows(k: Kernel, rows: Sequence[Sequence[ir.Value]], weights: Sequence[float]) -> list[ir.Value]:
    """Returns the sum of weight * row, column by column."""
    return [_weighted(k, column, weights) for column in zip(*rows, strict=True)]


def _product(roots: Sequence[float]) -> list[float]:
    """Returns the coefficients of the product of all y - root, constant term first."""
    coefficients = [1.0]
    for root in roots:
        shifted = [0.0, *coefficients]
        coefficients = [s - root * c for s, c in zip(shifted, [*coefficients, 0.0], strict=True)]
    return coefficients


def _weighted(
    k: Kernel, values: Sequence[ir.Value], weights: Sequence[float], start: ir.Value | None = None
) -> ir.Value:
    """Returns start + sum of weight * value. Weights 1 and -1 come first: they take no multiplication."""
    total = start
    for value, weight in sorted(
        zip(values, weights, strict=False), key=lambda term: (not _is_one(term[1]), not _is_one(-term[1]))
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
    """Returns even + point * odd and even - point * odd."""
    if _is_one(point):
        return [k.b.fadd(even, odd), k.b.fsub(even, odd)]
    return [multiply_add(k, odd, like(odd, sign * point), even) for sign in (1.0, -1.0)]


def _is_one(weight: float) -> bool:
    """Whether `weight` is 1, up to the rounding of the roots it was computed from."""
    return abs(weight - 1.0) < 1e-12
