"""recurrent: lstm, gru and rnn layers through time."""

from __future__ import annotations

from typing import ClassVar

from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, T
from treadle.records import dataclass

PHASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "lstm": ((0, 1, 2, 3),),
    "gru_reset_after": ((0, 1, 2),),
    "gru_reset_before": ((0, 1), (2,)),
    "rnn_tanh": ((0,),),
    "rnn_sigmoid": ((0,),),
    "rnn_relu": ((0,),),
}
"""The cells, and for each pass over weights that a time step takes the gates that are summed in it."""

UNROLL = 4
"""Rows of weights in one turn of the innermost loop."""

BUFFERS = 4
"""Buffers of hidden units that a cell uses at most: two states that take turns, and two more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentSpec(KernelSpec):
    """Parameters.

    Pointers: states, last state, last cell (of an lstm), x, weights, then bias, first state, first cell, lengths,
    peepholes and scales if they are there. Weights: for each of PHASES of the cell [directions, tiles, depth, gates,
    vectors * lanes], 0 where there is no hidden unit. Scratch: BUFFERS of [rows, lanes of all tiles].
    """

    family: ClassVar[str] = "recurrent"

    cell: str
    """A key of PHASES."""
    dtype: DType
    weights: DType
    """`dtype`, or i8: whole numbers, which `scales` [directions, gates * hidden] multiply."""
    rows: tuple[int, ...]
    """The heights of blocks of the batch's rows, the largest first: one, or two that differ by one; or more, down to 1,
    where the number of rows is open."""
    vectors: int
    """Vectors of a tile of hidden units."""
    ragged: bool
    """`hidden` is not a multiple of a tile."""
    bias: bool
    first_state: bool
    first_cell: bool
    lengths: DType | None
    """Dtype of the lengths; None: every row takes all times."""
    peepholes: bool
    functions: tuple[Expr, ...]
    """What activates gates, the candidate and a finished cell, in this order; empty for the cell's own functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentArgs(KernelArgs[T]):
    """Arguments. A unit is a block of rows of one direction."""

    time: T
    batch: T
    directions: T
    hidden: T
    """Hidden units."""
    tiles: T
    """Tiles that cover the hidden units."""
    depth: T
    """Rows of weights in a tile: `hidden`, rounded up to a multiple of UNROLL."""
    blocks: T
    """Units of one direction."""
    large_blocks: T
    """The first ones, which have `height` rows; the others have one row less."""
    height: T
    units: T
    units_per_chunk: T
    reverse: T
    """Bit d: direction d goes backwards in time."""
