"""The sums before and after the products of Strassen's algorithm in Winograd's form: 7 products, 15 additions.

A product of 2 x 2 by 2 x 2 blocks takes 7 products of blocks instead of 8. Each may be divided in the same way.
With the left factor a and the right one b, the products are those of

    a11, a12, s2 = a21 + a22 - a11, s3 = a11 - a21, s1 = a21 + a22, s4 = a12 - s2, a22   and
    b11, b21, t2 = b22 - b12 + b11, t3 = b22 - b12, t1 = b12 - b11, b22, t4 = t2 - b21

in the order in which the result needs them (Winograd 1971; Higham, Accuracy and Stability, 23.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel

Matrix = Sequence[Sequence[ir.Value]]


def left_sums(k: Kernel, a: Matrix) -> Iterator[ir.Value]:
    """Yields the left factors of all products, for a square matrix `a` of vectors whose side is a power of 2."""
    if len(a) == 1:
        yield a[0][0]
        return
    a11, a12, a21, a22 = _quarters(a)
    yield from left_sums(k, a11)
    yield from left_sums(k, a12)
    s1 = _each(k.b.fadd, a21, a22)
    s2 = _each(k.b.fsub, s1, a11)
    yield from left_sums(k, s2)
    yield from left_sums(k, _each(k.b.fsub, a11, a21))
    yield from left_sums(k, s1)
    yield from left_sums(k, _each(k.b.fsub, a12, s2))
    yield from left_sums(k, a22)


def results(k: Kernel, product: Callable[[], ir.Value], side: int) -> Matrix:
    """Returns the `side` x `side` vectors that the products add up to; `product()` returns one after another."""
    if side == 1:
        return [[product()]]
    p1 = results(k, product, side // 2)
    c11 = _each(k.b.fadd, p1, results(k, product, side // 2))
    u2 = _each(k.b.fadd, p1, results(k, product, side // 2))
    u3 = _each(k.b.fadd, u2, results(k, product, side // 2))
    p5 = results(k, product, side // 2)
    c22 = _each(k.b.fadd, u3, p5)
    c12 = _each(k.b.fadd, _each(k.b.fadd, u2, p5), results(k, product, side // 2))
    c21 = _each(k.b.fsub, u3, results(k, product, side // 2))
    return [[*left, *right] for left, right in (*zip(c11, c12, strict=True), *zip(c21, c22, strict=True))]


def _quarters(a: Matrix) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    half = len(a) // 2
    top, bottom = a[:half], a[half:]
    return (
        [row[:half] for row in top],
        [row[half:] for row in top],
        [row[:half] for row in bottom],
        [row[half:] for row in bottom],
    )


def _each(operation: Callable[[ir.Value, ir.Value], ir.Value], left: Matrix, right: Matrix) -> Matrix:
    return [[operation(one, other) for one, other in zip(*rows, strict=True)] for rows in zip(left, right, strict=True)]
