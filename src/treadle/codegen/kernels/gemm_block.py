"""The register block of a matrix product: rows x vectors sums that stay in registers over the whole depth."""

from __future__ import annotations

from contextlib import nullcontext

from llvmlite import ir

from treadle.codegen.emit.bfloat import bf16_dot
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import load, prefetch
from treadle.codegen.emit.types import I8
from treadle.codegen.emit.vectors import constant, multiply_add, splat
from treadle.codegen.emit.vnni import dot_of_pairs, load_vnni_left, load_widened_pairs, vnni_dot
from treadle.codegen.kernels.remainders import Remainders
from treadle.dtypes import DType
from treadle.plan.kernels.register_block import UNROLL, shared_lines
from treadle.plan.target import LINE
from treadle.records import dataclass

_ROWS_A_POINTER = 3
"""Rows p, p + stride and p + 2 * stride are addressed by one register for p and one for the stride."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """What each turn of a block's loop brings into L2: `lines` cache lines, at most `most`. The first one is `offset`
    bytes behind what the turn reads of the right factor."""

    most: int
    lines: Index
    offset: Index


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of a block: element (r, t) of the left one is at a + r * a_row + t * a_depth, row t of the right one
    at b + t * b_depth. Strides count elements; those known to the generator are ints.
    """

    a: ir.Value
    a_row: Index
    a_depth: Index
    b: ir.Value
    b_depth: Index
    prefetch: Prefetch = Prefetch(0, 0, 0)


def steps_of_a_turn(k: Kernel, sums: int) -> int:
    """The steps in a turn of a block that brings no data ahead.

    With few sums, each step waits for the additions of the one before, however many a turn has.
    """
    return 1 if sums <= k.target.machine.sums_in_flight else 2


class RegisterBlock:
    """Emits blocks of `rows` x `vectors` sums of `dtype`."""

    def __init__(
        self,
        k: Kernel,
        dtype: DType,
        rows: int,
        vectors: int,
        *,
        use_bf16_dot: bool = False,
        vnni: str = "",
        words: bool = False,
        steps: int = UNROLL,
    ) -> None:
        """With `use_bf16_dot` an element of both factors is two bf16 (`dtype` is f32).

        A turn of the loop over the depth has `steps` steps, which divide UNROLL.

        With `vnni` it is four bytes (`dtype` is i32), those of a `unsigned` or `signed`; before its first row, the
        right factor has a row of the values that sums begin with. With `words`, the left factor's are two
        elements of two 16-bit numbers (`widen_rows`), and the right factor's have the order of `split_pairs`.
        """
        self.k = k
        self.vnni = vnni
        self.widened = words
        self.multiply_add = bf16_dot if use_bf16_dot else self._dot_of_bytes if vnni else multiply_add
        self.dtype = dtype
        self.rows = rows
        self.vectors = vectors
        self.steps = steps
        self.lanes = k.target.lanes(dtype)

    def zeros(self) -> list[ir.Value]:
        """What sums begin with."""
        return [constant(self.dtype, 0.0, self.lanes)] * (self.rows * self.vectors)

    def product(
        self, factors: Factors, depth: Index, whole_turns: bool, begin: list[ir.Value] | None = None
    ) -> list[ir.Value]:
        """begin + a[0:rows, 0:depth] @ b[0:depth, :], row by row, summed in the order of depth.

        `whole_turns`: depth is known to be a multiple of UNROLL. `begin`: the sums of what comes before; None: zeros,
        or with VNNI dot products what the right factor says.
        """
        k = self.k
        spacing = self.rows if isinstance(factors.a_row, int) else _ROWS_A_POINTER
        rows = [k.at(factors.a, k.mul(factors.a_row, row), self.dtype) for row in range(0, self.rows, spacing)]
        sums = self.zeros() if begin is None else begin
        b = factors.b
        if self.vnni:
            sums = [load(k, b, v * self.lanes, self.dtype, self.lanes) for v in range(self.vectors)] * self.rows
            b = k.at(b, factors.b_depth, self.dtype)
        carry = [*sums, *rows, b]
        whole_turns = whole_turns or self.steps == 1
        most = depth if whole_turns else k.mul(k.div(depth, self.steps), self.steps)
        with loop(k, 0, most, self.steps, carry=carry, name="depth") as turn:
            self._prefetch(turn.carry[-1], factors.prefetch)
            turn.next(*self._steps(factors, spacing, list(turn.carry), self.steps))
        carry = list(turn.carry)
        if not whole_turns:
            with loop(k, most, depth, carry=carry, name="rest") as turn:
                turn.next(*self._steps(factors, spacing, list(turn.carry), 1))
            carry = list(turn.carry)
        return carry[: len(sums)]

    def add_remainders(
        self, remainders: Remainders, panel: Index, factors: Factors, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """`sums` plus the products of the second terms of weights that were split."""
        k = self.k
        with remainders.of_panel(panel, sums, 1) as (turn, (along,), weights):
            values = list(turn.carry)
            right = [load(k, weights, v * self.lanes, self.dtype, self.lanes) for v in range(self.vectors)]
            first = k.at(factors.a, k.mul(along, factors.a_depth), self.dtype)
            for row in range(self.rows):
                left = self._left(k.at(first, k.mul(factors.a_row, row), self.dtype), 0)
                for v in range(self.vectors):
                    number = row * self.vectors + v
                    values[number] = self.multiply_add(k, left, right[v], values[number])
            turn.next(*values)
        return turn.carry

    def _prefetch(self, b: ir.Value, wanted: Prefetch, done: int = 0) -> None:
        """Prefetches the lines from number `done` on for the turn that reads the right factor at `b`."""
        k = self.k
        if done == wanted.most:
            return
        is_known = isinstance(wanted.lines, int)
        end = wanted.most if is_known else next(each for each in shared_lines(wanted.most) if each > done)
        with nullcontext() if is_known else when(k, k.less(done, wanted.lines)):
            for line in range(done, end):
                prefetch(k, b, k.add(wanted.offset, line * LINE))
            self._prefetch(b, wanted, end)

    def _steps(self, factors: Factors, spacing: int, carry: list[ir.Value], steps: int) -> list[ir.Value]:
        """The loop's variables after `steps` steps: sums, pointers to every `spacing`th row of a, pointer to b."""
        k, dtype = self.k, self.dtype
        count = self.rows * self.vectors
        sums, pointers, b = carry[:count], carry[count:-1], carry[-1]
        row_bytes = k.mul(factors.a_row, dtype.size)
        for step in range(steps):
            b_row = k.at(b, k.mul(factors.b_depth, step), dtype)
            along = k.mul(factors.a_depth, step)
            for half in range(2 if self.widened else 1):
                right = [self._right(b_row, v * self.lanes, half) for v in range(self.vectors)]
                for row in range(self.rows):
                    offset = as_i64(k.mul(row_bytes, row % spacing))
                    start = k.b.gep(pointers[row // spacing], [offset], inbounds=True, source_etype=I8)
                    left = self._left(start, k.add(along, half))
                    for v in range(self.vectors):
                        number = row * self.vectors + v
                        sums[number] = self.multiply_add(k, left, right[v], sums[number])
        pointers = [k.at(pointer, k.mul(factors.a_depth, steps), dtype) for pointer in pointers]
        return [*sums, *pointers, k.at(b, k.mul(factors.b_depth, steps), dtype)]

    def _dot_of_bytes(self, k: Kernel, left: ir.Value, right: ir.Value, addend: ir.Value) -> ir.Value:
        return dot_of_pairs(k, left, right, addend) if self.widened else vnni_dot(k, left, right, addend)

    def _left(self, row: ir.Value, along: Index) -> ir.Value:
        """Element `along` of the left factor's row at `row`, in every lane."""
        k = self.k
        if self.vnni and not self.widened:
            return load_vnni_left(k, row, along, self.lanes, signed=self.vnni == "signed")
        return splat(k, load(k, row, along, self.dtype), self.lanes)

    def _right(self, row: ir.Value, column: int, half: int) -> ir.Value:
        """A vector of the right factor's row at `row`; `half`: which pairs of four bytes, if they are widened."""
        k = self.k
        if not self.widened:
            return load(k, row, column, self.dtype, self.lanes)
        return load_widened_pairs(k, k.at(row, column, self.dtype), half, self.lanes)
