"""The left factor of products of bytes on CPUs without VNNI: its rows as 16-bit numbers, in scratch."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.types import I8, I16
from treadle.codegen.emit.vectors import like
from treadle.dtypes import i32

_GROUPS = 4
"""Groups of four bytes that are widened at once."""


def widen_rows(
    k: Kernel, target: ir.Value, source: ir.Value, source_row: Index, sizes: tuple[Index, Index], *, signed: bool
) -> None:
    """Writes the bytes of a matrix to `target` as 16-bit numbers, row behind row; 128 is added to `signed` bytes.

    `sizes`: rows and groups of four bytes in each; `source_row` counts groups from one row to the next.
    """
    rows, groups = sizes
    with loop(k, 0, rows, name="widened") as row:
        from_row = k.at(source, k.mul(row.index, source_row), i32)
        to_row = k.at(target, k.mul(row.index, k.mul(groups, 2)), i32)

        def widen(group: Index, count: int, from_row: ir.Value = from_row, to_row: ir.Value = to_row) -> None:
            narrow = k.b.load(k.at(from_row, group, i32), align=1, typ=ir.VectorType(I8, 4 * count))
            if signed:
                narrow = k.b.xor(narrow, like(narrow, -128))
            wide = k.b.zext(narrow, ir.VectorType(I16, 4 * count))
            k.b.store(wide, k.at(to_row, k.mul(group, 2), i32), align=4)

        whole = k.mul(k.div(groups, _GROUPS), _GROUPS)
        with loop(k, 0, whole, _GROUPS, name="groups") as several:
            widen(several.index, _GROUPS)
        with loop(k, whole, groups, name="group") as single:
            widen(single.index, 1)
