"""The reduction of a pooling window's taps: to the largest, or to their sum for a mean."""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.types import I16
from treadle.codegen.emit.vectors import binary_intrinsic, bits_of, constant, like
from treadle.dtypes import DType

_MINUS_INFINITY = 0xFF80
"""The bits of minus infinity as bf16. Those of negative NaN are larger, those of negative numbers smaller."""


class Taps:
    """A running reduction of vectors. Its state is a list of vectors that loops can carry.

    The state of a maximum has a second vector, whose bits become all ones, which is a NaN, where two taps are
    unordered. That is faster than a maximum that propagates NaN.
    """

    def __init__(self, k: Kernel, kind: str, dtype: DType, lanes: int) -> None:
        self._k = k
        self.mean = kind == "avg"
        self.dtype = dtype
        self.lanes = lanes

    def nothing(self) -> ir.Constant:
        """Returns the reduction of no taps."""
        return constant(self.dtype, 0.0 if self.mean else -math.inf, self.lanes)

    def start(self) -> list[ir.Value]:
        """Returns the state before the first tap."""
        nothing = self.nothing()
        if self.mean:
            return [nothing]
        return [nothing, ir.Constant(ir.VectorType(ir.IntType(8 * self.dtype.size), self.lanes), None)]

    def combine(self, state: list[ir.Value], taps: list[ir.Value]) -> list[ir.Value]:
        """Returns the state after `taps` too."""
        b = self._k.b
        if self.mean:
            return [b.fadd(state[0], _tree(taps, b.fadd))]
        largest, unordered = state
        for left, right in zip(taps[::2], [*taps[1::2], taps[-1]], strict=False):
            unordered = b.or_(unordered, b.sext(b.fcmp_unordered("uno", left, right), unordered.type))
        return [self._larger(_tree(taps, self._larger), largest), unordered]

    def result(self, state: list[ir.Value]) -> ir.Value:
        """Returns the largest tap, or the sum."""
        if self.mean:
            return state[0]
        bits = self._k.b.or_(bits_of(self._k, state[0]), state[1])
        return self._k.b.bitcast(bits, state[0].type)

    def finish(self, value: ir.Value, count: ir.Value | None) -> ir.Value:
        """Returns the sum divided by `count`, or the maximum."""
        return value if count is None else self._k.b.fdiv(value, count)

    def _larger(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return self._k.b.select(self._k.b.fcmp_ordered(">", left, right), left, right)


def _tree(values: list[ir.Value], join: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    while len(values) > 1:
        joined = [join(left, right) for left, right in zip(values[::2], values[1::2], strict=False)]
        values = joined + ([values[-1]] if len(values) % 2 else [])
    return values[0]


class BfloatMaximum(Taps):
    """The largest of vectors of bf16, given as their bits: the CPU compares twice as many at a time as of f32.

    Signed integers order positive numbers, NaN last; unsigned integers order negative numbers backwards, NaN last. So
    the state is the signed maximum, the unsigned minimum and the unsigned maximum.
    """

    def start(self) -> list[ir.Value]:
        return [ir.Constant(ir.VectorType(I16, self.lanes), [_MINUS_INFINITY] * self.lanes)] * 3

    def combine(self, state: list[ir.Value], taps: list[ir.Value]) -> list[ir.Value]:
        for tap in taps:
            kinds = ("smax", "umin", "umax")
            state = [binary_intrinsic(self._k, kind, tap, value) for kind, value in zip(kinds, state, strict=True)]
        return state

    def result(self, state: list[ir.Value]) -> ir.Value:
        b, (positive, negative, last) = self._k.b, state
        largest = b.select(b.icmp_signed("<", positive, like(positive, 0)), negative, positive)
        return b.select(b.icmp_unsigned(">", last, like(last, _MINUS_INFINITY)), last, largest)
