"""Reads the second terms of weights that were split: see REMAINDER_HEAD."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import Loop, loop
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.types import I64
from treadle.dtypes import i32
from treadle.plan.kernels.register_block import REMAINDER_HEAD


class Remainders:
    """The list at `table`, of `panels` panels of `width` outputs."""

    def __init__(self, k: Kernel, table: ir.Value, panels: Index, width: int) -> None:
        self.k, self.table, self.width = k, table, width
        starts = k.mul(k.div(k.add(panels, REMAINDER_HEAD), REMAINDER_HEAD), REMAINDER_HEAD)
        self.entries = k.at(table, starts, i32)

    @contextmanager
    def of_panel(
        self, panel: Index, carry: list[ir.Value], numbers: int
    ) -> Iterator[tuple[Loop, list[ir.Value], ir.Value]]:
        """Emits its body once, as a loop over the entries of `panel`.

        Yields the loop, the first `numbers` numbers of an entry, and the address of its weights.
        """
        k = self.k
        first, last = (self._number(self.table, k.add(panel, side)) for side in range(2))
        with loop(k, first, last, carry=carry, name="remainder") as turn:
            entry = k.at(self.entries, k.mul(turn.index, REMAINDER_HEAD + self.width), i32)
            yield turn, [self._number(entry, at) for at in range(numbers)], k.at(entry, REMAINDER_HEAD, i32)

    def _number(self, base: ir.Value, at: Index) -> ir.Value:
        """Returns number `at` behind `base`."""
        return self.k.b.sext(load(self.k, base, as_i64(at), i32), I64)
