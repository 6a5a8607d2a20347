"""The epilogue of convolutions with row-major results: applied to vectors of neighbouring pixels of a row."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.memory import load, load_masked
from treadle.codegen.emit.vectors import constant, splat
from treadle.codegen.kernels.expr import emit_expr
from treadle.plan.kernels.conv.row_major import RowMajorConvArgs, RowMajorConvSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class RowEpilogue:
    """The epilogue of a convolution, if it has one. The first operand is a finished sum, the others are in memory."""

    spec: RowMajorConvSpec
    args: RowMajorConvArgs[ir.Value]

    def apply(
        self, k: Kernel, value: ir.Value, row: tuple[Index, Index, Index], column: Index, mask: ir.Value
    ) -> ir.Value:
        """Returns `value` with the epilogue applied.

        `row` is its image, channel and row, `column` the pixel of lane 0. Operands are read where `mask` is set.
        """
        spec = self.spec
        if spec.epilogue is None:
            return value
        lanes = mask.type.count
        operands = []
        for number, (kind, strides) in enumerate(zip(spec.kinds, self.args.operand_strides, strict=True)):
            pointer = k.pointer(spec.epilogue_pointer + number)
            at: Index = 0
            for axis, index in enumerate(row):
                at = k.add(at, k.mul(index, strides[axis]))
            if kind == "row":
                zero = constant(spec.dtype, 0.0, lanes)
                operands.append(load_masked(k, pointer, k.add(at, column), spec.dtype, mask, zero))
            else:
                operands.append(splat(k, load(k, pointer, at, spec.dtype), lanes))
        (result,) = emit_expr(k, spec.epilogue, [value, *operands])
        return result
