"""Reads the list of second terms of weights that were split: see DirectConvSpec."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import Loop, loop
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.types import I64
from treadle.dtypes import i32
from treadle.plan.kernels.conv.direct import REMAINDER_HEAD, DirectConvSpec


@dataclass(frozen=True, slots=True)
class Remainder:
    """An entry of the list: which input and kernel column it multiplies, and the address of its weights."""

    block: ir.Value
    element: ir.Value
    row: ir.Value
    column: ir.Value
    weights: ir.Value


class Remainders:
    """The list of one convolution."""

    def __init__(self, k: Kernel, spec: DirectConvSpec, groups: Index) -> None:
        self.k = k
        self.table = k.pointer(spec.remainders_pointer)
        self.panel = spec.vectors * spec.lanes
        starts = k.mul(k.div(k.add(groups, REMAINDER_HEAD), REMAINDER_HEAD), REMAINDER_HEAD)
        self.entries = k.at(self.table, starts, i32)

    @contextmanager
    def of_group(self, channel: Index, carry: list[ir.Value]) -> Iterator[tuple[Loop, Remainder]]:
        """Emits its body once, as a loop over the entries of the group whose first output is `channel`."""
        k = self.k
        group = k.div(channel, self.panel)
        first, last = (self._number(self.table, k.add(group, side)) for side in range(2))
        with loop(k, first, last, carry=carry, name="remainder") as turn:
            entry = k.at(self.entries, k.mul(turn.index, REMAINDER_HEAD + self.panel), i32)
            block, element, row, column = (self._number(entry, at) for at in range(4))
            yield turn, Remainder(block, element, row, column, k.at(entry, REMAINDER_HEAD, i32))

    def _number(self, base: ir.Value, at: Index) -> ir.Value:
        """Returns number `at` behind `base`."""
        return self.k.b.sext(load(self.k, base, as_i64(at), i32), I64)
