"""Recurrent layers through time: each block of the batch's rows is computed by itself, with its states in scratch.

The sums of all gates of a tile of hidden units stay in registers over the whole depth of h @ r.T, and become the next
state before they are stored. So a time step is one pass over the packed weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import either, loop
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store, store_masked
from treadle.codegen.emit.types import I64
from treadle.codegen.emit.vectors import constant, multiply_add, splat
from treadle.codegen.kernels.expr import emit_expr
from treadle.codegen.kernels.gemm_rows import RowBlocks
from treadle.codegen.kernels.recurrent_cell import CELL, CELLS, Phase
from treadle.dtypes import i8, i64
from treadle.plan.kernels.recurrent import PHASES, UNROLL, RecurrentArgs, RecurrentSpec
from treadle.plan.status import INDEX_OUT_OF_RANGE
from treadle.records import dataclass

Masks = Sequence["ir.Value | None"]
"""For each vector of a tile the lanes that have a hidden unit; None: all."""

_BUSY = 8
"""Independent sums that hide the latency of a multiplication."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A block of rows at one time: direction, first row, number of rows, the buffer of the state before.

    For each row: the time it is at, and whether it has not ended yet (None: no row ends before the others).
    """

    direction: Index
    first: Index
    rows: int
    before: Index = 0
    times: Sequence[Index] = ()
    running: Sequence[ir.Value] | None = None


def emit_recurrent(k: Kernel, spec: RecurrentSpec) -> None:
    """All times of each unit, a unit being a block of rows of one direction."""
    through = Recurrence(k, spec)
    args = through.args
    blocks = RowBlocks(k, spec.rows, args.large_blocks, args.height)
    with loop(k, *k.chunk_range(args.units, args.units_per_chunk), name="unit") as unit:
        direction, block = k.div(unit.index, args.blocks), k.rem(unit.index, args.blocks)
        first = blocks.first_row(block)
        blocks.emit(block, lambda rows: through.block(Moment(direction, first, rows)))


class Recurrence:
    """Emits one recurrent kernel."""

    def __init__(self, k: Kernel, spec: RecurrentSpec) -> None:
        self.k = k
        self.spec = spec
        self.cell = CELLS[spec.cell]
        self.gates = sum(map(len, PHASES[spec.cell]))
        self.dtype = spec.dtype
        self.lanes = k.target.lanes(self.dtype)
        self.width = spec.vectors * self.lanes
        self.args = k.args(RecurrentArgs[ir.Value], spec)
        self.padded = k.mul(self.args.tiles, self.width)
        names = ["states", "last_state", *(["last_cell"] if self.cell.has_cell else []), "x", "weights"]
        optional = {
            "bias": spec.bias,
            "first_state": spec.first_state,
            "first_cell": spec.first_cell,
            "lengths": spec.lengths is not None,
            "peepholes": spec.peepholes,
            "scales": spec.weights == i8,
        }
        names += [name for name, is_there in optional.items() if is_there]
        self.pointer = {name: k.pointer(number) for number, name in enumerate(names)}

    def block(self, block: Moment) -> None:
        """All times of one block of rows."""
        k, args = self.k, self.args
        self._vectors(block, lambda site: site.begin())
        backwards = k.b.and_(k.b.lshr(as_i64(args.reverse), as_i64(block.direction)), I64(1))
        onward = k.sub(1, k.mul(backwards, 2))
        ends = self._ends(block)
        firsts = [k.mul(backwards, k.sub(end, 1)) for end in ends]
        with loop(k, 0, args.time, name="time") as turn:
            before = k.rem(turn.index, 2)
            times = [k.add(first, k.mul(turn.index, onward)) for first in firsts]
            if self.spec.lengths is None:
                self._step(replace(block, before=before, times=times * block.rows))
            else:
                running = [k.less(turn.index, end) for end in ends]
                held = [k.b.select(runs, as_i64(time), turn.index) for runs, time in zip(running, times, strict=True)]
                self._step(replace(block, before=before, times=held, running=running))
        self._vectors(replace(block, before=k.rem(args.time, 2)), lambda site: site.end())

    def _ends(self, block: Moment) -> list[Index]:
        """The number of times of each row; one number if it is the same for all rows."""
        k, dtype = self.k, self.spec.lengths
        if dtype is None:
            return [self.args.time]
        ends: list[Index] = []
        for row in range(block.rows):
            length = load(k, self.pointer["lengths"], k.add(block.first, row), dtype)
            end = convert(k, length, dtype, i64)
            k.fail_if(k.b.icmp_unsigned(">", end, as_i64(self.args.time)), INDEX_OUT_OF_RANGE)
            ends.append(end)
        return ends

    def _step(self, now: Moment) -> None:
        """One time of one block."""
        k, args = self.k, self.args
        packed: Index = 0
        for phase, gates in zip(self.cell.phases, PHASES[self.spec.cell], strict=True):
            tile_size = k.mul(args.depth, len(gates) * self.width)
            mine = k.add(packed, k.mul(k.mul(now.direction, args.tiles), tile_size))

            def tile(
                number: Index,
                masks: Masks,
                phase: Phase = phase,
                gates: tuple[int, ...] = gates,
                mine: Index = mine,
                size: Index = tile_size,
            ) -> None:
                weights = k.at(self.pointer["weights"], k.add(mine, k.mul(number, size)), self.spec.weights)
                self._tile(now, phase, gates, weights, self._sites(now, number, masks))

            self._tiles(tile, from_end=now.before)
            packed = k.add(packed, k.mul(k.mul(args.directions, args.tiles), tile_size))

    def _tile(
        self, now: Moment, phase: Phase, gates: tuple[int, ...], weights: ir.Value, sites: list[list[Vector]]
    ) -> None:
        """The sums of the gates of one tile for all rows, and the end of the phase with them."""
        k, dtype, vectors = self.k, self.dtype, self.spec.vectors
        source = now.before if phase.source is None else phase.source
        rows = [k.at(k.scratch, self.offset(now, source, row, 0), dtype) for row in range(now.rows)]
        begun = [phase.begin(site, gate) for row in sites for gate in gates for site in row]
        columns = len(gates) * vectors
        count = len(begun)
        scaled = self.spec.weights == i8
        sums = [constant(dtype, 0.0, self.lanes)] * count if scaled else begun
        sums += [constant(dtype, 0.0, self.lanes)] * (count * (self._interleaved(count) - 1))
        with loop(k, 0, self.args.depth, UNROLL, carry=[*sums, weights], name="depth") as turn:
            *sums, at = turn.carry
            for step in range(UNROLL):
                offset = step * columns * self.lanes
                right = [self._weights(at, offset + v * self.lanes) for v in range(columns)]
                for row, pointer in enumerate(rows):
                    left = splat(k, load(k, pointer, k.add(turn.index, step), dtype), self.lanes)
                    for v in range(columns):
                        number = (step * count + row * columns + v) % len(sums)
                        sums[number] = multiply_add(k, left, right[v], sums[number])
            turn.next(*sums, k.at(at, UNROLL * columns * self.lanes, self.spec.weights))
        sums = turn.carry[:-1]
        while len(sums) > count:
            half = len(sums) // 2
            sums = [k.b.fadd(one, other) for one, other in zip(sums[:half], sums[half:], strict=True)]
        if scaled:
            scales = [site.scale(gate) for row in sites for gate in gates for site in row]
            sums = [multiply_add(k, *each) for each in zip(sums, scales, begun, strict=True)]
        for row, line in enumerate(sites):
            for v, site in enumerate(line):
                phase.finish(site, [sums[row * columns + gate * vectors + v] for gate in range(len(gates))])

    def _weights(self, at: ir.Value, offset: int) -> ir.Value:
        """A vector of weights as floats."""
        found = load(self.k, at, offset, self.spec.weights, self.lanes)
        return convert(self.k, found, self.spec.weights, self.dtype)

    def _interleaved(self, sums: int) -> int:
        """How many parts each of `sums` sums over the depth has, a power of 2 up to UNROLL.

        Where the batch is open, tiles are as narrow as many rows want them. One row alone then has too few sums to hide
        the latency of a multiplication.
        """
        parts = 1
        while len(self.spec.rows) > 2 and parts < UNROLL and 2 * parts * sums <= _BUSY:
            parts *= 2
        return parts

    def _tiles(self, body: Callable[[Index, Masks], None], from_end: Index = 0) -> None:
        """Emits a loop with `body` for each tile of hidden units, from the last one to the first where `from_end` is 1.

        Times alternate, so that each begins with the weights that the time before read last: caches still hold them.
        """
        k, vectors = self.k, self.spec.vectors
        whole: Masks = [None] * vectors
        with loop(k, 0, self.args.tiles, name="tile") as turn:
            mirrored = k.sub(k.sub(self.args.tiles, 1), turn.index)
            tile = k.add(turn.index, k.mul(from_end, k.sub(mirrored, turn.index)))
            if not self.spec.ragged:
                body(tile, whole)
                return
            left = k.sub(self.args.hidden, k.mul(tile, self.width))
            with either(k, k.less(left, self.width)) as (edge, full):
                with edge:
                    body(tile, [lane_mask(k, k.sub(left, v * self.lanes), self.lanes) for v in range(vectors)])
                with full:
                    body(tile, whole)

    def _vectors(self, now: Moment, body: Callable[[Vector], None]) -> None:
        """`body` for each vector of each row of the block."""

        def tile(number: Index, masks: Masks) -> None:
            for row in self._sites(now, number, masks):
                for site in row:
                    body(site)

        self._tiles(tile)

    def _sites(self, now: Moment, tile: Index, masks: Masks) -> list[list[Vector]]:
        column = self.k.mul(tile, self.width)
        return [
            [Vector(self, now, row, self.k.add(column, v * self.lanes), mask) for v, mask in enumerate(masks)]
            for row in range(now.rows)
        ]

    def offset(self, now: Moment, buffer: Index, row: int, column: Index) -> Index:
        """The offset in scratch, in elements, of `column` of `row` of a buffer."""
        k = self.k
        return k.add(k.mul(k.add(k.mul(buffer, now.rows), row), self.padded), column)


class Vector:
    """The `Site` that cells see. Lanes behind the last hidden unit read 0 from operands, and write to scratch only."""

    def __init__(self, through: Recurrence, now: Moment, row: int, column: Index, mask: ir.Value | None) -> None:
        self.k, self.dtype = through.k, through.dtype
        self._through, self._now, self._row, self._column, self._mask = through, now, row, column, mask

    def x(self, gate: int) -> ir.Value:
        """From x [time, batch, directions, gates, hidden], at the time that the row is at."""
        k, args = self.k, self._through.args
        line = k.add(k.mul(self._now.times[self._row], args.batch), k.add(self._now.first, self._row))
        wide = k.mul(args.hidden, self._through.gates)
        start = k.mul(k.add(k.mul(line, args.directions), self._now.direction), wide)
        return self._read("x", k.add(k.add(start, k.mul(args.hidden, gate)), self._column))

    def bias(self) -> ir.Value:
        """From bias [directions, hidden]."""
        start = self.k.mul(self._now.direction, self._through.args.hidden)
        return self._read("bias", self.k.add(start, self._column))

    def peephole(self, gate: int) -> ir.Value | None:
        """From peepholes [directions, 3, hidden]; None where the layer has none."""
        if not self._through.spec.peepholes:
            return None
        k, hidden = self.k, self._through.args.hidden
        start = k.mul(k.add(k.mul(self._now.direction, 3), gate), hidden)
        return self._read("peepholes", k.add(start, self._column))

    def scale(self, gate: int) -> ir.Value:
        """From scales [directions, gates, hidden]."""
        k, through = self.k, self._through
        start = k.mul(k.add(k.mul(self._now.direction, through.gates), gate), through.args.hidden)
        return self._read("scales", k.add(start, self._column))

    def function(self, number: int, value: ir.Value) -> ir.Value | None:
        """By the scalar program of the layer, if it has its own."""
        functions = self._through.spec.functions
        return emit_expr(self.k, functions[number], [value])[0] if functions else None

    def state(self) -> ir.Value:
        """From the one of buffers 0 and 1 that the time before wrote, or `begin`."""
        return self._load(self._now.before)

    def load(self, buffer: int) -> ir.Value:
        """From scratch, lanes without a hidden unit too."""
        return self._load(buffer)

    def store(self, buffer: Index, value: ir.Value) -> None:
        """All lanes: each row of a buffer has room for whole tiles."""
        offset = self._through.offset(self._now, buffer, self._row, self._column)
        store(self.k, value, self.k.scratch, offset, self.dtype)

    def become(self, state: ir.Value) -> None:
        """To the buffer that the next time reads, and to states [time, directions, batch, hidden]: 0 for a row that has
        ended."""
        k, args, runs = self.k, self._through.args, self._runs()
        self.store(k.sub(1, self._now.before), state if runs is None else k.b.select(runs, state, self.state()))
        time = self._now.times[self._row]
        before = k.mul(k.mul(time, args.directions), k.mul(args.batch, args.hidden))
        shown = state if runs is None else k.b.select(runs, state, constant(self.dtype, 0.0, self._through.lanes))
        self._write("states", k.add(before, self._outside()), shown)

    def keep(self, buffer: int, value: ir.Value) -> None:
        """As `store`; a row that has ended keeps what it had."""
        runs = self._runs()
        self.store(buffer, value if runs is None else self.k.b.select(runs, value, self.load(buffer)))

    def _runs(self) -> ir.Value | None:
        return None if self._now.running is None else self._now.running[self._row]

    def begin(self) -> None:
        """Set the first state and cell."""
        self.store(0, self._read("first_state", self._outside()))
        if self._through.cell.has_cell:
            self.store(CELL, self._read("first_cell", self._outside()))

    def end(self) -> None:
        """Write the last state and cell."""
        self._write("last_state", self._outside(), self.state())
        if self._through.cell.has_cell:
            self._write("last_cell", self._outside(), self.load(CELL))

    def _outside(self) -> Index:
        """The offset in a tensor [directions, batch, hidden]."""
        k, args = self.k, self._through.args
        line = k.add(k.mul(self._now.direction, args.batch), k.add(self._now.first, self._row))
        return k.add(k.mul(line, args.hidden), self._column)

    def _load(self, buffer: Index) -> ir.Value:
        offset = self._through.offset(self._now, buffer, self._row, self._column)
        return load(self.k, self.k.scratch, offset, self.dtype, self._through.lanes)

    def _read(self, name: str, index: Index) -> ir.Value:
        """A vector of an operand; 0 where there is none."""
        zero = constant(self.dtype, 0.0, self._through.lanes)
        if name not in self._through.pointer:
            return zero
        base = self._through.pointer[name]
        if self._mask is None:
            return load(self.k, base, index, self.dtype, self._through.lanes)
        return load_masked(self.k, base, index, self.dtype, self._mask, zero)

    def _write(self, name: str, index: Index, value: ir.Value) -> None:
        base = self._through.pointer[name]
        if self._mask is None:
            store(self.k, value, base, index, self.dtype)
        else:
            store_masked(self.k, value, base, index, self.dtype, self._mask)
