"""The epilogue of convolutions with row-major results: applied to vectors of neighbouring pixels of a row."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.memory import load, load_masked
from treadle.codegen.emit.vectors import constant, splat
from treadle.codegen.kernels.expr import emit_expr
from treadle.dtypes import DType
from treadle.graph.expr import Expr
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class RowEpilogue:
    """The epilogue `expr`, None for none, of sums of `dtype`.

    Its operands after the first are pointers from number `first` on, of these `kinds`, with `strides`: elements from
    one image, channel and row to the next (`PlainConvSpec`, `PlainConvArgs`).
    """

    dtype: DType
    expr: Expr | None
    kinds: tuple[str, ...]
    first: int
    strides: tuple[tuple[Index, Index, Index], ...]

    def apply(
        self, k: Kernel, value: ir.Value, row: tuple[Index, Index, Index], column: Index, mask: ir.Value
    ) -> ir.Value:
        """Returns `value` with the epilogue applied.

        `row` is its image, channel and row, `column` the pixel of lane 0. Operands are read where `mask` is set.
        """
        if self.expr is None:
            return value
        lanes = mask.type.count
        operands = []
        for number, (kind, strides) in enumerate(zip(self.kinds, self.strides, strict=True)):
            pointer = k.pointer(self.first + number)
            at: Index = 0
            for axis, index in enumerate(row):
                at = k.add(at, k.mul(index, strides[axis]))
            if kind == "row":
                zero = constant(self.dtype, 0.0, lanes)
                operands.append(load_masked(k, pointer, k.add(at, column), self.dtype, mask, zero))
            else:
                operands.append(splat(k, load(k, pointer, at, self.dtype), lanes))
        (result,) = emit_expr(k, self.expr, [value, *operands])
        return result
