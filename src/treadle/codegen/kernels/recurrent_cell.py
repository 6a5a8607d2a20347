"""Recurrent cells: from the finished sums of the gates to states, one vector of hidden units of one row at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel
from treadle.codegen.emit.math_exp import sigmoid, tanh
from treadle.codegen.emit.scalar_ops import extreme
from treadle.codegen.emit.vectors import like, multiply_add
from treadle.dtypes import DType
from treadle.records import dataclass

CELL = 2
"""The buffer of an lstm's cells."""

SCALED, UPDATE = 2, 3
"""The buffers between the phases of a gru that resets before the product: r * h, and z."""


class Site(Protocol):
    """A vector of hidden units of one row at one time. `k` is the kernel, `dtype` that of all values."""

    k: Kernel
    dtype: DType

    def x(self, gate: int) -> ir.Value:
        """The input's sum of a gate."""

    def bias(self) -> ir.Value:
        """The bias of the product of the last gate; 0 where there is none."""

    def peephole(self, gate: int) -> ir.Value | None:
        """The weights of the cell in an lstm's gate 0 (input), 1 (output) or 2 (forget); None without peepholes."""

    def state(self) -> ir.Value:
        """The state before this time."""

    def load(self, buffer: int) -> ir.Value:
        """Returns the vector from a buffer."""

    def store(self, buffer: int, value: ir.Value) -> None:
        """Writes the vector to a buffer."""

    def keep(self, buffer: int, value: ir.Value) -> None:
        """Writes the vector to a buffer, unless the row has ended."""

    def become(self, state: ir.Value) -> None:
        """Writes the state of this time."""

    def function(self, number: int, value: ir.Value) -> ir.Value | None:
        """`value` activated as a gate (0), a candidate (1) or a finished cell (2); None for the cell's own function."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One pass over weights: gates are summed over `source` (a buffer; None: the state before this time). `begin` makes
    the value that the sum of a gate begins with, `finish` takes all sums."""

    source: int | None
    begin: Callable[[Site, int], ir.Value]
    finish: Callable[[Site, list[ir.Value]], None]


@dataclass(frozen=True, slots=True)
class Cell:
    """The phases of a time step, one for each of `PHASES`. Buffers 0 and 1 are states that take turns."""

    phases: tuple[Phase, ...]
    has_cell: bool = False


def _from_x(site: Site, gate: int) -> ir.Value:
    return site.x(gate)


def _from_x_or_bias(site: Site, gate: int) -> ir.Value:
    return site.bias() if gate == 2 else site.x(gate)


def _with_bias(site: Site, gate: int) -> ir.Value:
    return site.k.b.fadd(site.x(gate), site.bias())


def _lstm(site: Site, sums: list[ir.Value]) -> None:
    k, (i, o, f, g) = site.k, sums
    before = site.load(CELL)
    kept = k.b.fmul(_gate(site, f, 2, before), before)
    cell = k.b.fadd(kept, k.b.fmul(_gate(site, i, 0, before), _activated(site, 1, g)))
    site.keep(CELL, cell)
    site.become(k.b.fmul(_gate(site, o, 1, cell), _activated(site, 2, cell)))


def _activated(site: Site, number: int, value: ir.Value) -> ir.Value:
    """A gate, which is activated by a sigmoid unless the layer has a function of its own; others by tanh."""
    own = site.function(number, value)
    if own is not None:
        return own
    return tanh(site.k, value) if number else sigmoid(site.k, value)


def _gate(site: Site, total: ir.Value, gate: int, cell: ir.Value) -> ir.Value:
    peephole = site.peephole(gate)
    seen = total if peephole is None else multiply_add(site.k, peephole, cell, total)
    return _activated(site, 0, seen)


def _gru_after(site: Site, sums: list[ir.Value]) -> None:
    k, (z, r, product) = site.k, sums
    candidate = _activated(site, 1, k.b.fadd(site.x(2), k.b.fmul(_activated(site, 0, r), product)))
    site.become(_mixed(site, _activated(site, 0, z), candidate))


def _gru_gates(site: Site, sums: list[ir.Value]) -> None:
    k, (z, r) = site.k, sums
    site.store(UPDATE, _activated(site, 0, z))
    site.store(SCALED, k.b.fmul(_activated(site, 0, r), site.state()))


def _gru_candidate(site: Site, sums: list[ir.Value]) -> None:
    site.become(_mixed(site, site.load(UPDATE), _activated(site, 1, sums[0])))


def _mixed(site: Site, z: ir.Value, candidate: ir.Value) -> ir.Value:
    """(1 - z) * candidate + z * state"""
    k = site.k
    fresh = k.b.fmul(k.b.fsub(like(z, 1.0), z), candidate)
    return k.b.fadd(fresh, k.b.fmul(z, site.state()))


def _rnn(apply: Callable[[Site, ir.Value], ir.Value]) -> Cell:
    def finish(site: Site, sums: list[ir.Value]) -> None:
        own = site.function(0, sums[0])
        site.become(apply(site, sums[0]) if own is None else own)

    return Cell((Phase(None, _from_x, finish),))


CELLS = {
    "lstm": Cell((Phase(None, _from_x, _lstm),), has_cell=True),
    "gru_reset_after": Cell((Phase(None, _from_x_or_bias, _gru_after),)),
    "gru_reset_before": Cell((Phase(None, _from_x, _gru_gates), Phase(SCALED, _with_bias, _gru_candidate))),
    "rnn_tanh": _rnn(lambda site, value: tanh(site.k, value)),
    "rnn_sigmoid": _rnn(lambda site, value: sigmoid(site.k, value)),
    "rnn_relu": _rnn(lambda site, value: extreme(site.k, value, like(value, 0.0), site.dtype, "max")),
}
