"""How convolutions divide a row of the result into register blocks if its width is an expression.

Kernel columns fall outside the input at both ends of a row, so blocks there have code of their own: those at the left
end begin at pixel 0, those at the right end end with the row. Each comes in a few sizes, of which the row's width
chooses one; wide padding takes several blocks. A block at the right end may compute pixels again that the block before
it has: by the same worker, and to the same bits. Pixels that no block covers, in rows of few pixels, are computed one
by one. Where a dilated kernel reaches so far out of the input that blocks would come in too many forms, the kernel
divides rows itself.
"""

from __future__ import annotations

from treadle.graph.dim import DimExpr, ceil_div, is_expression, maximum, minimum
from treadle.passes.lower.conv.rows import MAX_SEGMENTS, RowTiling, block_cost, candidates, choose_row_tiling
from treadle.passes.lower.conv.shape import ConvShape
from treadle.plan.kernels.conv.rows import Columns, Pair
from treadle.records import dataclass

_SPREAD = tuple(2.0 ** (quarter / 4) for quarter in range(-4, 13))
"""The widths that a tiling should serve well, as multiples of the sample width: convolutions behind others have small
samples."""

_MAX_END_BLOCKS = 3
"""The most blocks at one end of a row that have code of their own: more would make a huge kernel."""

_MAX_COLUMNS_IN_RUNS = 16
"""The widest kernel for which a row is divided at run time: each column may begin two runs."""

_MAX_OVERHANGS = 2
"""The most positions of the last kernel column, relative to the end of the input, that have blocks of their own."""


@dataclass(frozen=True, slots=True)
class OpenRow:
    """The segments and spans of a row. Blocks of the last segment are one pixel, of which nothing is known."""

    segments: tuple[Columns, ...]
    spans: tuple[Pair, ...]


def has_open_rows(shape: ConvShape) -> bool:
    """Whether blocks have to serve rows of several lengths."""
    return any(map(is_expression, _row_sizes(shape)))


def row_tiling(
    shape: ConvShape, lanes: int, registers: int, *, halves: bool = False, runs: bool = True
) -> RowTiling | None:
    """Returns how direct convolution divides a row; None if the padding is too wide for blocks of open rows.

    The first arguments are those of `choose_row_tiling`, which serves rows whose width is a number. `runs`: the kernel
    may divide rows at run time.
    """
    is_dilated = shape.dilations[1] > 1 and not is_expression(shape.pads[1])
    runs = runs and is_dilated and shape.kernel[1] <= _MAX_COLUMNS_IN_RUNS
    if not has_open_rows(shape):
        known = choose_row_tiling(shape.sample, lanes, registers, halves=halves)
        if not runs or len(known.segments) <= MAX_SEGMENTS:
            return known
        return _in_runs(shape, known.vectors, known.widest, halved=known.halved)
    flat, sample = shape.is_pointwise, shape.sample
    widths = _widths(sample.out_size[0] * sample.out_size[1] if flat else sample.out_size[1])

    def cost(candidate: tuple[int, bool, int]) -> float:
        vectors, halved, pixels = candidate
        filled = vectors - 0.5 * halved
        return sum(_row_cost(width, pixels, filled, flat=flat) / width for width in widths) / vectors

    vectors, halved, pixels = min(candidates(shape, lanes, registers, halves=halves), key=cost)
    row = _flat_row(shape, pixels) if flat else open_row(shape, pixels)
    if row is None:
        return _in_runs(shape, vectors, pixels, halved=halved) if runs else None
    return RowTiling(vectors, flat, row.segments, row.spans, halved, checked=not flat)


def _in_runs(shape: ConvShape, vectors: int, widest: int, *, halved: bool) -> RowTiling:
    """Returns blocks of a row that the kernel divides at run time."""
    sizes = dict.fromkeys((*_parts(widest, 2), 1))
    segments = tuple(((0, shape.kernel[1]),) * size for size in sizes)
    return RowTiling(vectors, False, segments, ((0, 0),) * len(segments), halved, checked=True, in_runs=True)


def open_row(shape: ConvShape, widest: int) -> OpenRow | None:
    """Returns blocks of at most `widest` pixels for rows of an open width; None if the left padding is too wide."""
    width, out, stride, pad = shape.size[1], shape.out_size[1], shape.strides[1], shape.pads[1]
    if is_expression(pad):
        return None
    reach = (shape.kernel[1] - 1) * shape.dilations[1] + 1
    left = max(0, ceil_div(pad, stride))
    if left > _MAX_END_BLOCKS * widest:
        return None
    overhang = (out - 1) * stride - pad + reach - width
    inside = minimum(out, maximum(0, (width - reach + pad) // stride + 1))
    sizes = _parts(widest, 4)
    segments: list[Columns] = []
    spans: list[Pair] = []

    done = wider = 0
    for first, size in _left_blocks(left, widest):
        fits = _at_least(inside, first + size)
        segments.append(_columns(shape, size, first * stride - pad, width=None))
        spans.append((first, fits - wider))
        done, wider = done + size * (fits - wider), 0 if left > widest else fits

    blocks = (inside - done) // widest
    segments.append(_columns(shape, widest, 0, width=None))
    spans.append((done, blocks))
    done = done + blocks * widest

    rest = out - done
    covered = 0
    for beyond, is_so in _overhangs(overhang):
        ends = ceil_div(widest - 1 + ceil_div(beyond, stride), widest)
        for number in range(min(ends, _MAX_END_BLOCKS)):
            here = minimum(maximum(0, rest - number * widest), widest)
            used = 0
            for size, less in zip(sizes, (*sizes[1:], 0), strict=True) if number == 0 else [(widest, 0)]:
                before = number * widest + size
                count = (_at_least(here, less + 1) - _at_least(here, size + 1)) * _at_least(out - before, left) * is_so
                segments.append(_columns(shape, size, 0, width=(before - 1) * stride + reach - beyond))
                spans.append((out - before, count))
                used = used + count
            covered = covered + minimum(1, used) * here
    segments.append(((0, shape.kernel[1]),))
    spans.append((done, rest - covered))
    return OpenRow(tuple(segments), tuple(spans))


def _flat_row(shape: ConvShape, widest: int) -> OpenRow:
    """Returns blocks for an image as one row. No pixel is in two of them, as each may belong to another worker."""
    rest = shape.out_size[0] * shape.out_size[1]
    start = 0
    segments, spans = [], []
    for size in dict.fromkeys((*_parts(widest, 2), 1)):
        count = rest // size
        segments.append(((0, 1),) * size)
        spans.append((start, count))
        start, rest = start + count * size, rest - count * size
    return OpenRow(tuple(segments), tuple(spans))


def _left_blocks(left: int, widest: int) -> list[Pair]:
    """Returns the first pixels and the sizes of blocks that cover the first `left` pixels of a row, ascending.

    One block takes these pixels if there is such a size; then only one of those returned is in a row.
    """
    if left > widest:
        return [(number * widest, widest) for number in range(ceil_div(left, widest))]
    return [(0, size) for size in _parts(widest, 2) if size >= left > 0]


def _row_sizes(shape: ConvShape) -> Pair:
    return shape.out_size if shape.is_pointwise else (shape.size[1], shape.out_size[1])


def _parts(widest: int, ratio: int) -> list[int]:
    """Returns sizes of blocks, descending: quarters of `widest`, with `ratio` 2 halves of halves."""
    quarters = (4, 3, 2, 1) if ratio == 4 else (4, 2, 1)
    return list(dict.fromkeys(-(-widest * quarter // 4) for quarter in quarters))


def _columns(shape: ConvShape, pixels: int, left: int, *, width: int | None) -> Columns:
    """Returns the columns of a block whose first pixel's kernel begins at input column `left`.

    `width`: where the input ends; None: behind what the block reads.
    """
    stride, dilation, kernel = shape.strides[1], shape.dilations[1], shape.kernel[1]

    def taps(before: int) -> int:
        return min(kernel, max(0, -(-before // dilation)))

    columns = []
    for pixel in range(pixels):
        first = left + pixel * stride
        low = taps(-first)
        high = kernel if width is None else taps(width - first)
        columns.append((low, max(low, high)))
    return tuple(columns)


def _overhangs(overhang: int) -> list[tuple[int, int]]:
    """Returns what `overhang` may be, negative ones counted as 0, with 1 for each if it is so and else 0.

    None of them if there are too many.
    """
    if not isinstance(overhang, DimExpr):
        return [(max(0, overhang), 1)]
    least, most = max(0, overhang.least), max(0, overhang.most)
    if most - least >= _MAX_OVERHANGS:
        return []
    found = range(int(least), int(most) + 1)
    if len(found) == 1:
        return [(found[0], 1)]
    ends = [1, *(_at_least(overhang, number) for number in found[1:]), 0]
    return [(number, ends[i] - ends[i + 1]) for i, number in enumerate(found)]


def _at_least(size: int, number: int) -> int:
    """Returns 1 if `size` is `number` or more, else 0."""
    return minimum(1, maximum(0, size - number + 1))


def _widths(sample: int) -> list[int]:
    return sorted({max(1, round(sample * factor)) for factor in _SPREAD})


def _row_cost(width: int, pixels: int, filled: float, *, flat: bool) -> float:
    """Returns the relative time of a row; its ends may need other blocks, of the same sizes."""
    blocks, rest = divmod(width, pixels)
    cost = blocks * block_cost(pixels, filled)
    for size in _parts(pixels, 2 if flat else 4)[::-1]:
        if 0 < rest <= size:
            return cost + block_cost(size, filled)
    return cost
