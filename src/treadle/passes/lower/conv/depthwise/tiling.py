"""How convolutions with narrow groups divide a row into register blocks."""

from __future__ import annotations

from treadle.passes.lower.conv.rows import RowTiling, divide_row, segments_of
from treadle.passes.lower.conv.shape import ConvShape


def depthwise_tiling(shape: ConvShape, registers: int) -> RowTiling:
    """Returns the row tiling of a convolution whose groups lie within single blocks of channels."""
    segments, spans = segments_of(divide_row(shape.out_size[1], 14 if registers >= 32 else 7), shape.columns)
    return RowTiling(1, flat=False, segments=segments, spans=spans)
