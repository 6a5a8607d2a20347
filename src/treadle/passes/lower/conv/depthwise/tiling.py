"""How convolutions with narrow groups are divided: register blocks of a row, and chunks."""

from __future__ import annotations

from treadle.passes.lower.conv.rows import RowTiling, divide_row, segments_of
from treadle.passes.lower.conv.shape import ConvShape
from treadle.passes.lower.searches import load_imbalance
from treadle.plan.kernels.conv.rows import Pair


def depthwise_tiling(shape: ConvShape, registers: int) -> RowTiling:
    """Returns the row tiling of a convolution whose groups lie within single blocks of channels."""
    segments, spans = segments_of(divide_row(shape.out_size[1], 14 if registers >= 32 else 7), shape.columns)
    return RowTiling(1, flat=False, segments=segments, spans=spans)


def partition_planes(planes: int, rows: int, wanted: float) -> Pair:
    """Returns (planes, rows) of a chunk, one of them undivided: the most even partition into about `wanted` chunks."""
    partitions = [(each, rows) for each in range(1, planes + 1)] + [(1, each) for each in range(rows - 1, 0, -1)]
    return min(partitions, key=lambda chunk: load_imbalance((planes, chunk[0]), (rows, chunk[1]), wanted))
