"""Lowering of lstm, gru and rnn: a unit is a block of the batch's rows; weights are packed by tiles of hidden units."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from treadle.dtypes import DType, f32, f64, i8
from treadle.graph.dim import is_expression, real_maximum
from treadle.graph.expr import Expr
from treadle.graph.node import Node
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.passes.lower.base import Array, LowerContext
from treadle.passes.lower.gemm_tiles import Tile, cut_open_rows, cut_rows
from treadle.plan.call import Call
from treadle.plan.kernels.recurrent import BUFFERS, PHASES, UNROLL, RecurrentArgs, RecurrentSpec
from treadle.plan.target import Target
from treadle.records import dataclass

_EFFICIENCY = 2 / 3
"""The part of the arithmetic limit that products of weights from L2 are assumed to reach."""

_GATE_WORK = 36
"""How many multiply-adds take as long as the exponentials of one vector of one gate."""

_WIDENING = 1
"""How many multiply-adds take as long as a vector of i8 that becomes one of floats."""

_MOST_OPEN_ROWS = 6
"""Every height of blocks has code of its own where the batch is open."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """A kind of layer. `name` is the kernel's parameter `cell`; the numbers are those of optional operands of the node,
    None if the layer has no such operand.
    """

    name: str
    state: int
    lengths: int
    cell_state: int | None = None
    bias: int | None = None
    peepholes: int | None = None
    scales: int | None = None

    @property
    def phases(self) -> tuple[tuple[int, ...], ...]:
        """The gates that are summed in each pass over weights."""
        return PHASES[self.name]

    @property
    def gates(self) -> int:
        """Gates of all phases."""
        return sum(map(len, self.phases))

    def optional(self, node: Node) -> dict[str, Value | None]:
        """The optional operands of `node` in the order of the kernel's pointers; None for those that are not there."""
        numbers = {
            "bias": self.bias,
            "first_state": self.state,
            "first_cell": self.cell_state,
            "lengths": self.lengths,
            "peepholes": self.peepholes,
            "scales": self.scales,
        }
        return {
            name: None if number is None or number >= len(node.inputs) else node.inputs[number]
            for name, number in numbers.items()
        }


@dataclass(frozen=True, slots=True)
class _Tiling:
    """Blocks of the batch's rows, and `tiles` of `vectors` of hidden units, whose weights have `depth` rows."""

    rows: Tile
    vectors: int
    width: int
    tiles: int
    depth: int


_LSTM = _Cell("lstm", state=2, cell_state=3, lengths=4, peepholes=5, scales=6)
_GRU_RESET_AFTER = _Cell("gru_reset_after", state=2, bias=3, lengths=4)
_GRU_RESET_BEFORE = _Cell("gru_reset_before", state=2, bias=3, lengths=4)


def lower_lstm(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None where the weights are no constants, or for 16-bit floats."""
    return _lower(node, ctx, _LSTM)


def lower_gru(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None where the weights are no constants, or for 16-bit floats."""
    return _lower(node, ctx, _GRU_RESET_AFTER if node.attrs["reset_after"] else _GRU_RESET_BEFORE)


def lower_rnn(node: Node, ctx: LowerContext) -> list[Call] | None:
    """One call; None where the weights are no constants, or for 16-bit floats."""
    return _lower(node, ctx, _Cell(f"rnn_{node.attrs['activation']}", state=2, lengths=3))


def _lower(node: Node, ctx: LowerContext, cell: _Cell) -> list[Call] | None:
    x, r = node.operand(0), node.operand(1)
    dtype = x.known_dtype
    if not is_enabled("recurrent") or dtype not in (f32, f64) or not r.is_constant:
        return None
    time, batch, directions, _ = x.static_shape
    hidden = r.static_shape[2]
    if 0 in (batch, directions, hidden):
        return []
    tiling = _choose_tiling(cell, batch, hidden, ctx.target.lanes(dtype), ctx.target.registers)
    rows, optional = tiling.rows, cell.optional(node)
    weights = _packed(ctx, r, cell, tiling)
    units = directions * rows.blocks
    unit_ns = time * _step_ns(cell, hidden, tiling, dtype, r.known_dtype, ctx.target)
    chunks, per_chunk = ctx.partition(units, unit_ns)
    backwards = sum(1 << direction for direction, reverse in enumerate(node.attrs["reverse"]) if reverse)
    return [
        ctx.call(
            node,
            _spec(cell, dtype, r.known_dtype, hidden, tiling, optional, node.attrs.get("functions", ())),
            tuple(node.outputs),
            (x, weights, *(value for value in optional.values() if value is not None)),
            args=RecurrentArgs(
                time=time,
                batch=batch,
                directions=directions,
                hidden=hidden,
                tiles=tiling.tiles,
                depth=tiling.depth,
                blocks=rows.blocks,
                large_blocks=rows.large_blocks,
                height=rows.height,
                units=units,
                units_per_chunk=per_chunk,
                reverse=backwards,
            ),
            chunks=chunks,
            flops=2.0 * time * batch * directions * cell.gates * hidden * hidden,
            cost=ctx.machine.call_ns + units * unit_ns,
            scratch=BUFFERS * rows.heights[0] * tiling.tiles * tiling.width * dtype.size,
        )
    ]


def _spec(
    cell: _Cell,
    dtype: DType,
    weights: DType,
    hidden: int,
    tiling: _Tiling,
    optional: Mapping[str, Value | None],
    functions: tuple[Expr, ...],
) -> RecurrentSpec:
    lengths = optional["lengths"]
    return RecurrentSpec(
        cell=cell.name,
        dtype=dtype,
        weights=weights,
        rows=tiling.rows.heights,
        vectors=tiling.vectors,
        ragged=hidden % tiling.width != 0,
        lengths=None if lengths is None else lengths.known_dtype,
        bias=optional["bias"] is not None,
        first_state=optional["first_state"] is not None,
        first_cell=optional["first_cell"] is not None,
        peepholes=optional["peepholes"] is not None,
        functions=functions,
    )


def _choose_tiling(cell: _Cell, batch: int, hidden: int, lanes: int, registers: int) -> _Tiling:
    """Tiles of two vectors where one row alone has too few sums, and blocks of as many rows as registers hold."""
    open_batch = is_expression(batch)
    vectors = max(2 if not open_batch and batch == 1 and hidden > lanes else 1, UNROLL // lanes)
    sums = max(map(len, cell.phases)) * vectors
    most = max(1, (registers - sums - 2) // sums)
    rows = cut_open_rows(batch, min(most, _MOST_OPEN_ROWS), vectors) if open_batch else cut_rows(batch, most, vectors)
    width = vectors * lanes
    return _Tiling(rows, vectors, width, tiles=-(-hidden // width), depth=-(-hidden // UNROLL) * UNROLL)


def _step_ns(cell: _Cell, hidden: int, tiling: _Tiling, dtype: DType, weights: DType, target: Target) -> float:
    """Estimated time of one step in time of a block of rows."""
    height, machine, size = tiling.rows.height, target.machine, cell.gates * hidden * hidden
    products = 2.0 * height * size / (target.lanes(dtype) * machine.flops_per_lane_ns * _EFFICIENCY)
    if weights == i8:
        products += _WIDENING * size / target.lanes(dtype) * machine.fma_ns
    moved = size * weights.size / machine.l2_bytes_per_ns
    return (
        real_maximum(products, moved)
        + height * tiling.tiles * tiling.vectors * cell.gates * _GATE_WORK * machine.fma_ns
    )


def _packed(ctx: LowerContext, r: Value, cell: _Cell, tiling: _Tiling) -> Value:
    """r [directions, gates * hidden, hidden] as, for each phase, [directions, tiles, depth, gates, width]."""
    phases, gates, tiles, width, depth = cell.phases, cell.gates, tiling.tiles, tiling.width, tiling.depth
    how = f"recurrent {phases} {tiles} {width} {depth}"
    directions, _, hidden = r.static_shape

    def packed(data: Array) -> Array:
        room = np.zeros((directions, gates, tiles * width, depth), data.dtype)
        room[:, :, :hidden, :hidden] = data.reshape(directions, gates, hidden, hidden)
        tiled = room.reshape(directions, gates, tiles, width, depth).transpose(0, 2, 4, 1, 3)
        return np.concatenate([np.ascontiguousarray(tiled[:, :, :, list(phase)]).reshape(-1) for phase in phases])

    return ctx.packed_factor(r, how, "tiles", packed)
