"""How convolutions with narrow groups divide a row into register blocks."""

from __future__ import annotations

from treadle.graph.dim import is_expression
from treadle.passes.lower.conv.open_rows import open_row
from treadle.passes.lower.conv.rows import RowTiling, divide_row, segments_of
from treadle.passes.lower.conv.shape import ConvShape


def depthwise_tiling(shape: ConvShape, registers: int) -> RowTiling | None:
    """Returns the row tiling of a convolution whose groups lie within single blocks of channels.

    None if the left padding is too wide for blocks of open rows.
    """
    widest = 14 if registers >= 32 else 7
    if is_expression(shape.size[1]) or is_expression(shape.out_size[1]):
        row = open_row(shape, widest)
        return None if row is None else RowTiling(1, flat=False, segments=row.segments, spans=row.spans, checked=True)
    segments, spans = segments_of(divide_row(shape.out_size[1], widest), shape.columns)
    return RowTiling(1, flat=False, segments=segments, spans=spans)
