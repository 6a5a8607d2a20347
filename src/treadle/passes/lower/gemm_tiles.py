"""The tiling of a matrix product into register blocks, and its partition into chunks of blocks and panels."""

from __future__ import annotations

from typing import Any

from treadle.graph.dim import ceil_div, computed, hint_of, is_expression, maximum, minimum
from treadle.passes.lower import searches
from treadle.plan.kernels.register_block import MOST_SHARERS, UNROLL
from treadle.plan.machine import MachineModel
from treadle.plan.target import LINE, Target
from treadle.records import dataclass

MAX_ROWS = 9
"""More rows need more address registers than there are."""

MAX_VECTORS = 4

_BUSY = 12
"""Independent sums that hide the latency of a multiplication."""

MAX_OPEN_ROWS = 6
"""More rows save next to no time if a block has two vectors or more, and every height has code of its own where the
number of rows is open."""

MANY_ROWS = 2520
"""Open numbers of rows are taken for this one, which all heights of blocks divide, where a tile is chosen."""

LOADED = 0.1
"""The time of a load beside that of a vector of products, while arithmetic is what takes the time."""

_USUAL_COLUMNS = 128
"""Open numbers of columns likewise; half of a panel more is multiplied for nothing."""

_USUAL_DEPTH = 256
"""Open depths likewise."""

_SHORT = 128
_UNEVEN = 1.03
"""What blocks of two heights cost where the depth is _SHORT, so that blocks end often."""

_MOST_SHARERS = 16
"""Where more blocks than this use a panel, the time in which the first one waits for it matters little."""

WHOLE_BYTES = 4096
"""Rows of the left factor below this are multiplied whole, longer ones in parts of up to PART_BYTES."""

PART_BYTES = 2048

PART_BLOCKS = 16
"""Fewer blocks of rows fit L2 beside a panel of the whole depth."""

STREAMS = 4
"""Panels that a single block multiplies by turns where one stream from memory is slow. More are hardly faster
(python -m benches.micro.gemm "few rows")."""

STREAM_BYTES = 512
"""Of a panel that are read in each turn."""

_WHOLE_STREAM = 0.9
"""The part of the memory's bandwidth from which on one stream is as fast as several: turns take time too."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A register block: its heights (at most two that differ by one, the larger first), how many blocks of rows
    there are, how many of them have the larger height, and the width of blocks in vectors.

    Where the number of rows is open, `heights` may be all heights up to a maximum, the largest first; then
    `open_height` is the larger height that a number of rows has.
    """

    heights: tuple[int, ...]
    blocks: int
    large_blocks: int
    vectors: int
    open_height: int | None = None

    @property
    def height(self) -> int:
        """Rows of a large block."""
        return self.heights[0] if self.open_height is None else self.open_height


@dataclass(frozen=True, slots=True)
class Grid:
    """The partition of a batch of products: batches, blocks of rows and panels of each chunk, and the numbers of
    chunks."""

    batches: int
    blocks: int
    panels: int
    batch_chunks: int
    block_chunks: int
    panel_chunks: int

    @property
    def chunks(self) -> int:
        return self.batch_chunks * self.block_chunks * self.panel_chunks


def choose_tile(rows: int, columns: int, depth: int, lanes: int, registers: int, right_cost: float = LOADED) -> Tile:
    """The tile that needs the least time for [rows, depth] @ [depth, columns].

    `right_cost`: the time of a vector of the right factor beside that of a vector of products.
    """
    depth = _USUAL_DEPTH if is_expression(depth) else depth
    if is_expression(rows):
        return _choose_open_tile(rows, columns, depth, lanes, registers, right_cost)
    total = ceil_div(_USUAL_COLUMNS if is_expression(columns) else columns, lanes)
    best: tuple[float, Tile] | None = None
    for vectors in range(1, min(MAX_VECTORS, max(1, total)) + 1):
        most = _most_rows(vectors, registers)
        if most < 1:
            continue
        for height in dict.fromkeys((most, _even_height(rows, most, vectors))):
            tile = cut_rows(rows, height, vectors)
            full, rest = divmod(total, vectors)
            cost = full * panel_cost(tile, vectors, depth, right_cost)
            cost += panel_cost(tile, rest, depth, right_cost) if rest else 0.0
            if best is None or cost < best[0] * 0.995:
                best = (cost, tile)
    assert best is not None, "one vector always fits"
    return best[1]


def _choose_open_tile(rows: int, columns: int, depth: int, lanes: int, registers: int, right_cost: float) -> Tile:
    """The tile that needs the least time for many rows. Of equals the highest, which reads the right factor least
    often, and of these the widest, whose code is short.
    """

    def most_rows(vectors: int) -> int:
        return min(_most_rows(vectors, registers), MAX_ROWS if vectors == 1 else MAX_OPEN_ROWS)

    def cost(vectors: int) -> float:
        tile = cut_rows(MANY_ROWS, most_rows(vectors), vectors)
        width = vectors * lanes
        panels = _USUAL_COLUMNS / width + 0.5 if is_expression(columns) else ceil_div(columns, width)
        return panels * panel_cost(tile, vectors, depth, right_cost)

    most = MAX_VECTORS if is_expression(columns) else min(MAX_VECTORS, max(1, ceil_div(columns, lanes)))
    widths = range(1, most + 1)
    costs = {vectors: cost(vectors) for vectors in widths if most_rows(vectors) > 0}
    least = min(costs.values())
    height, vectors = max((most_rows(vectors), vectors) for vectors in costs if costs[vectors] * 0.99 <= least)
    return cut_open_rows(rows, height, vectors)


def _most_rows(vectors: int, registers: int) -> int:
    """The largest height of blocks of `vectors` vectors."""
    return min(MAX_ROWS, (registers - vectors - 1) // vectors)


def _even_height(rows: int, most: int, vectors: int) -> int:
    """The largest height up to `most` that divides `rows` and keeps the multipliers busy; `most` if there is none."""
    return next((height for height in range(most, 0, -1) if rows % height == 0 and height * vectors >= _BUSY), most)


def cut_rows(rows: int, most: int, vectors: int) -> Tile:
    """As few register blocks as `rows` need of `most` rows each, of two heights that differ by one at most."""
    blocks = max(1, -(-rows // most))
    height, larger = divmod(rows, blocks)
    if larger:
        heights = (height + 1, height) if height else (height + 1,)
    else:
        heights, larger = (max(height, 1),), blocks
    return Tile(heights, blocks if rows else 0, larger if rows else 0, vectors)


def cut_open_rows(rows: int, most: int, vectors: int) -> Tile:
    """As `cut_rows`, for an open number of rows: the heights of blocks are arguments of the kernel."""
    blocks = ceil_div(rows, most)
    if most <= 2:
        return Tile((2, 1)[2 - most :], blocks, rows - blocks * (most - 1), vectors)
    height = ceil_div(rows, blocks)
    return Tile(tuple(range(most, 0, -1)), blocks, rows - blocks * (height - 1), vectors, height)


def panel_cost(tile: Tile, vectors: int, depth: int, right_cost: float = LOADED) -> float:
    """Relative time of all blocks of one panel; `right_cost` as in `choose_tile`."""
    small = tile.blocks - tile.large_blocks
    cost = tile.large_blocks * _block_cost(tile.heights[0], vectors, depth, right_cost)
    cost += small * _block_cost(tile.heights[-1], vectors, depth, right_cost)
    return cost * _UNEVEN if len(tile.heights) > 1 and depth <= _SHORT else cost


def _block_cost(rows: int, vectors: int, depth: int, right_cost: float) -> float:
    """Relative time of a block: for each step of depth the slowest of arithmetic, loads and latency; then its
    stores."""
    return step_cost(rows, vectors, right_cost) * max(depth, 1) + 2 * rows * vectors + 12


def step_cost(rows: int, vectors: int, right_cost: float) -> float:
    """How many multiply-adds take as long as one step of the depth of a block, whose factors are in L1 and L2."""
    loads = rows + vectors
    return max(rows * vectors, loads, 8.0 if rows > 1 else 2.0 * vectors) + LOADED * rows + right_cost * vectors


@dataclass(frozen=True, slots=True)
class Parts:
    """How a chunk goes through its panels: `length` elements of the depth of `panels` panels by turns, then the next
    part of them, until they are done.

    `several`: whether there may be more than one part. `share`: the part of the depth whose panels a chunk keeps in L2.
    """

    length: int
    panels: int
    several: bool
    share: float

    @classmethod
    def whole(cls, depth: int) -> Parts:
        """The whole depth at once, panel by panel."""
        return cls(depth, 1, several=False, share=1.0)


def choose_parts(
    depth: int, size: int, tile: Tile, panels: int, lanes: int, machine: MachineModel, *, packed: bool
) -> Parts:
    """The parts of a product of `panels` panels whose factors come from memory; `packed`: the right one is a constant.

    Elements have `size` bytes. Where there are many blocks of rows, what a chunk reads of both factors for one part
    stays in L2, however deep the product is. A single block reads each panel once, and waits for memory: short parts of
    several panels are several streams from it, where one does not keep it busy. There is one part where neither helps,
    and where the depth is open or 0. Parts have one length; the last one may be shorter.
    """
    if is_expression(depth) or depth == 0:
        return Parts.whole(depth)
    long, blocks = long_part(depth, size, lanes), tile.blocks
    short = -(-STREAM_BYTES // (tile.vectors * lanes * size * UNROLL)) * UNROLL
    if not packed or short >= depth or machine.stream_share >= _WHOLE_STREAM:
        short = depth
    if not is_expression(blocks):
        if blocks == 1:
            return Parts(short, min(STREAMS, panels), short < depth, share=1.0)
        length = depth if blocks < PART_BLOCKS else long
        return Parts(length, panels, length < depth, length / depth)
    single, fit = (1 - minimum(blocks // number, 1) for number in (2, PART_BLOCKS))
    kept = long + fit * (depth - long)
    by_turns = panels + single * (minimum(STREAMS, panels) - panels)
    return Parts(kept + single * (short - depth), by_turns, min(short, long) < depth, kept / depth)


def long_part(depth: int, size: int, multiple: int) -> int:
    """The longest part of which both factors' share stays in L2, a `multiple`; the whole depth if that is not deep."""
    if depth * size < WHOLE_BYTES:
        return depth
    parts = -(-depth * size // PART_BYTES)
    return -(-depth // (parts * multiple)) * multiple


def choose_grid(
    tile: Tile,
    panels: int,
    batches: int,
    block_ns: float,
    a_bytes: float,
    b_bytes: float,
    target: Target,
    *,
    copies: bool,
    share: float = 1.0,
) -> Grid:
    """Chunks that move the least memory.

    `block_ns`: the time of one block of one panel; `a_bytes`, `b_bytes`: of one batch's factors; `copies`: the
    right factor is copied, by each chunk or, where several would copy the same panel, beforehand; `share`: of the depth
    that is multiplied at once.
    """
    blocks, panels = maximum(tile.blocks, 1), maximum(panels, 1)
    machine = target.machine
    figures = machine.l2_bytes_per_ns, machine.l3_bytes_per_ns, machine.usual_chunk_ns
    args = blocks, panels, batches, block_ns, a_bytes, b_bytes, target.l2, copies, share, *figures
    known: Any = map(hint_of, args)
    found = searches.choose_grid(*known)
    batches_each = computed("grid.batches", lambda *_: found[0], args, least=1)
    blocks_each = computed("grid.blocks", lambda *_: found[1], args, least=1)
    panels_each = computed("grid.panels", lambda *_: found[2], args, least=1)
    return Grid(
        batches_each,
        blocks_each,
        panels_each,
        ceil_div(batches, batches_each),
        ceil_div(blocks, blocks_each),
        ceil_div(panels, panels_each),
    )


@dataclass(frozen=True, slots=True)
class Prefetched:
    """What each turn of a block prefetches: `lines` cache lines, at most `most`; the chunk's first block those `ahead`
    bytes behind what the turn reads of the right factor, each further one the next ones."""

    lines: int
    most: int
    ahead: int


NO_PREFETCH = Prefetched(0, 0, 0)


def prefetched(
    grid: Grid, parts: Parts, step_bytes: int, panel_bytes: int, machine: MachineModel, *, alone: bool
) -> Prefetched:
    """What the blocks of a chunk prefetch of packed panels of `panel_bytes`, of which a row is `step_bytes` long.

    Several blocks prefetch a whole panel together: not the next one, which another worker may have begun by then, but
    the one behind it. The memory behind the last panel of a constant may be the next constant; if it is not, no harm is
    done. Chunks of products in parts are longer, and prefetch the next panel. Where the number of blocks is open, up to
    four share the work, and further ones do as much. A single block prefetches what it reads itself soon, if
    `alone` says so: where L2 holds the model's weights, it would take longer.
    """
    turn_lines = -(-UNROLL * step_bytes // LINE)
    later = panel_bytes * (1 if parts.several else 2)
    soon = _bytes_ahead(parts, step_bytes, machine)
    if is_expression(grid.blocks):
        several = minimum(grid.blocks - 1, 1)
        lines = ceil_div(turn_lines, minimum(grid.blocks, MOST_SHARERS))
        return Prefetched(lines if alone else several * lines, turn_lines, soon + several * (later - soon))
    if grid.blocks == 1:
        return Prefetched(turn_lines, turn_lines, soon) if alone else NO_PREFETCH
    if grid.blocks > _MOST_SHARERS and not parts.several:
        return NO_PREFETCH
    lines = -(-turn_lines // grid.blocks)
    return Prefetched(lines, lines, later)


def _bytes_ahead(parts: Parts, step_bytes: int, machine: MachineModel) -> int:
    """How far behind what a single block reads of a panel the lines are that memory has to be asked for by then.

    All panels that are multiplied by turns have `bytes_in_flight` together; a turn of a panel takes a part of it at
    once.
    """
    if not parts.several:
        return ceil_div(machine.bytes_in_flight, LINE) * LINE
    return ceil_div(machine.bytes_in_flight, parts.panels * LINE) * LINE + parts.length * step_bytes
