"""Expressions of sizes as a list of operations that the native core computes when a plan is bound to sizes.

Every value has a slot of 64 bits, an int64 or a double: first the symbols, then the constants, then one result of each
operation. `native/include/treadle/binder.h` says what the operations mean.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from treadle.errors import InternalError
from treadle.graph.dim import Atom, DimExpr, RealExpr
from treadle.graph.guard import Guard
from treadle.records import dataclass

OPS = (
    "add", "sub", "mul", "floordiv", "min", "max", "is_zero", "is_negative", "not",
    "to_real", "real_add", "real_sub", "real_mul", "real_div", "real_min", "real_max", "less", "less_equal",
    "floor", "ceil", "round", "real_of_bits", "bits_of_real", "real_single", "real_sqrt",
    "units_per_chunk", "conv.units", "conv.groups", "planes.planes", "planes.rows",
    "grid.batches", "grid.blocks", "grid.panels",
    "winograd.tiles", "winograd.groups", "winograd.input", "winograd.product", "winograd.total",
)  # fmt: skip
"""The operations, in the order of their native numbers."""

_NUMBER = {name: number for number, name in enumerate(OPS)}

_ROUNDINGS = ("floor", "ceil", "round")

_GRIDS = ("grid.batches", "grid.blocks", "grid.panels")

_WINOGRAD = ("winograd.tiles", "winograd.groups", "winograd.input", "winograd.product", "winograd.total")

REAL_OPERANDS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("real_add", "real_sub", "real_mul", "real_div", "real_min", "real_max"), (0, 1)),
    **dict.fromkeys(("less", "less_equal"), (0, 1)),
    **dict.fromkeys(("real_single", "real_sqrt"), (0,)),
    **dict.fromkeys(("floor", "ceil", "round", "bits_of_real"), (0,)),
    "units_per_chunk": (1, 2),
    **dict.fromkeys(("conv.units", "conv.groups"), (2, 5, 6)),
    **dict.fromkeys(("planes.planes", "planes.rows"), (2, 3)),
    **dict.fromkeys(_GRIDS, (3, 4, 5, 8, 9, 10, 11)),
    **dict.fromkeys(_WINOGRAD, (11, 12, 13, 14, 18, 19, 20, 21)),
}
"""Which operands of an operation are reals, by position; the others are integers."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of a binding: `kind` is "symbol", "constant" or "result", `number` counts those of one kind."""

    kind: str
    number: int


@dataclass(frozen=True, slots=True)
class Operations:
    """What binding computes.

    Attributes:
        symbols: The number of symbols.
        constants: The bits of the constants, int64.
        operations: (operation, first operand) rows, int32; operands of row i end where those of row i + 1 begin.
        operands: Slot numbers, int32.
    """

    symbols: int
    constants: np.ndarray[Any, Any]
    operations: np.ndarray[Any, Any]
    operands: np.ndarray[Any, Any]


class Encoder:
    """Collects expressions and gives each a slot; equal ones share it."""

    def __init__(self, symbols: Sequence[DimExpr]) -> None:
        self._symbols = {symbol: Slot("symbol", number) for number, symbol in enumerate(symbols)}
        self._constants: dict[tuple[str, bytes], Slot] = {}
        self._bits: list[int] = []
        self._results: dict[tuple[str, tuple[Slot, ...]], Slot] = {}
        self._rows: list[tuple[str, tuple[Slot, ...]]] = []
        self._encoded: dict[float, Slot] = {}
        self._places: list[int] = []  # of each row among the operations, once they are finished

    def integer(self, size: int) -> Slot:
        """Returns the slot of a size."""
        if not isinstance(size, DimExpr):
            return self._constant("int", struct.pack("<q", int(size)))
        if size not in self._encoded:
            self._encoded[size] = self._symbols.get(size) or self._sum(size)
        return self._encoded[size]

    def real(self, number: float) -> Slot:
        """Returns the slot of a real number."""
        if isinstance(number, DimExpr):
            return self._result("to_real", self.integer(number))
        if not isinstance(number, RealExpr):
            return self._constant("real", struct.pack("<d", float(number)))
        if number not in self._encoded:
            operand = self.integer if number.op == "of_bits" else self.real
            self._encoded[number] = self._result(f"real_{number.op}", *map(operand, number.args))
        return self._encoded[number]

    def guard(self, guard: Guard) -> Slot:
        """Returns the slot of an assumption: 1 where it holds, else 0."""
        if guard.op in ("zero", "negative"):
            answer = self._result(f"is_{guard.op}", self.integer(guard.left))
        else:
            answer = self._result(guard.op, self.real(guard.left), self.real(guard.right))
        return answer if guard.holds else self._result("not", answer)

    def at_least(self, size: int, number: int) -> Slot:
        """Returns the slot of 1 where `size` is `number` or more, else 0."""
        below = self._result("is_negative", self._result("sub", self.integer(size), self.integer(number)))
        return self._result("not", below)

    def elements_at_most(self, shape: Sequence[int], number: int) -> Slot:
        """Returns the slot of 1 where an array of `shape`, which has an axis, has at most `number` elements, else 0."""
        count = reduce(partial(self._result, "mul"), map(self.integer, shape))
        return self._result("not", self._result("is_negative", self._result("sub", self.integer(number), count)))

    def finish(self) -> Operations:
        """Returns all operations; `number_of` says which slot has which number."""
        order = in_runs(self._rows)
        self._places = sorted(range(len(order)), key=order.__getitem__)
        rows: list[tuple[int, int]] = []
        operands: list[int] = []
        for op, slots in (self._rows[row] for row in order):
            rows.append((_NUMBER[op], len(operands)))
            operands += [self.number_of(slot) for slot in slots]
        return Operations(
            len(self._symbols),
            np.array(self._bits, np.int64),
            np.array(rows, np.int32).reshape(-1, 2),
            np.array(operands, np.int32),
        )

    def number_of(self, slot: Slot) -> int:
        """Returns the number of a slot, once all expressions are encoded."""
        if slot.kind == "symbol":
            return slot.number
        if slot.kind == "constant":
            return len(self._symbols) + slot.number
        return len(self._symbols) + len(self._bits) + self._places[slot.number]

    def _sum(self, size: DimExpr) -> Slot:
        total: Slot | None = None
        for product, times in size.terms:
            term: Slot | None = None
            for atom in product:
                factor = self._atom(atom)
                term = factor if term is None else self._result("mul", term, factor)
            if term is None:
                term = self.integer(times)
            elif times == -1 and total is not None:
                total = self._result("sub", total, term)
                continue
            elif times != 1:
                term = self._result("mul", term, self.integer(times))
            total = term if total is None else self._result("add", total, term)
        if total is None:
            raise InternalError("an expression of sizes has no term")
        return total

    def _atom(self, atom: Atom) -> Slot:
        if atom.symbol is not None:
            return self._symbols[atom.symbol]
        if atom.op in _ROUNDINGS:
            return self._result(atom.op, self.real(atom.args[0]))
        if atom.op in ("min", "max"):
            first, *others = map(self.integer, atom.args)
            for other in others:
                first = self._result(atom.op, first, other)
            return first
        reals = REAL_OPERANDS.get(atom.op, ())
        operands = (self.real(arg) if at in reals else self.integer(arg) for at, arg in enumerate(atom.args))
        return self._result(atom.op, *operands)

    def _constant(self, kind: str, data: bytes) -> Slot:
        if (kind, data) not in self._constants:
            self._constants[kind, data] = Slot("constant", len(self._bits))
            self._bits.append(struct.unpack("<q", data)[0])
        return self._constants[kind, data]

    def _result(self, op: str, *operands: Slot) -> Slot:
        key = op, operands
        if key not in self._results:
            self._results[key] = Slot("result", len(self._rows))
            self._rows.append(key)
        return self._results[key]


def in_runs(rows: Sequence[tuple[str, tuple[Slot, ...]]]) -> list[int]:
    """Returns the numbers of `rows`, each an operation and its operands, in an order in which they can be computed.

    Equal operations that depend on the same symbols follow each other as far as possible: the native core decodes them
    once a run, and skips those whose symbols have not changed.
    """
    kinds: list[tuple[str, frozenset[int]]] = []
    users: list[list[int]] = [[] for _ in rows]
    pending = []
    for row, (op, slots) in enumerate(rows):
        symbols = {slot.number for slot in slots if slot.kind == "symbol"}
        before = {slot.number for slot in slots if slot.kind == "result"}
        for number in before:
            users[number].append(row)
        kinds.append((op, frozenset(symbols.union(*(kinds[number][1] for number in before)))))
        pending.append(len(before))
    ready: dict[tuple[str, frozenset[int]], list[int]] = {}
    for row, count in enumerate(pending):
        if count == 0:
            ready.setdefault(kinds[row], []).append(row)
    order: list[int] = []
    while ready:
        kind = max(ready, key=lambda each: len(ready[each]))
        run = ready[kind]
        for row in run:  # which grows meanwhile
            order.append(row)
            for user in users[row]:
                pending[user] -= 1
                if pending[user] == 0:
                    ready.setdefault(kinds[user], []).append(user)
        del ready[kind]
    return order
