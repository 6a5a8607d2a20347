"""The epilogue of convolutions: applied to finished sums, which are then stored blocked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import lane_mask, load, store
from treadle.codegen.emit.scalar_ops import LONG_OPS
from treadle.codegen.emit.vectors import splat
from treadle.codegen.kernels.expr import emit_expr, load_value
from treadle.dtypes import DType
from treadle.plan.kernels.conv.epilogue import BlockedConvSpec

_HEAVY = LONG_OPS | {"div", "reciprocal", "sqrt", "rsqrt"}
"""Ops that take so long that an epilogue with them is emitted once a block, in a loop, instead of once a vector."""


class Epilogue:
    """The epilogue of a convolution kernel with `outputs` output channels."""

    def __init__(self, k: Kernel, spec: BlockedConvSpec, outputs: Index) -> None:
        self.k = k
        self.expr = spec.epilogue
        self.dtype, self.lanes = spec.dtype, spec.lanes
        self.result: DType = self.dtype if self.expr is None else self.expr.dtype(self.expr.results[0])
        self._kinds = spec.kinds
        self._first = spec.epilogue_pointer
        self._outputs = outputs
        self._operands = () if self.expr is None else self.expr.operands[1:]
        self._heavy = self.expr is not None and any(step.op in _HEAVY for step in self.expr.steps)

    def store_block(self, sums: list[ir.Value], image: Index, channel: Index, outs: Sequence[Index]) -> None:
        """Applies the epilogue to `sums` and stores them: pixel by pixel, one vector for each of `outs`.

        `outs` are the offsets in out of the vectors of pixel 0; `channel` is the output channel of lane 0 of the first
        vector. If the result has another dtype than the sums, these may be stored at the start of scratch meanwhile.
        """
        k, lanes = self.k, self.lanes
        width = len(outs)
        pixels = len(sums) // width
        fixed = [self._fixed(image, k.add(channel, v * lanes)) for v in range(width)]
        if not self._heavy or pixels == 1:
            for number, value in enumerate(sums):
                p, v = divmod(number, width)
                at = k.add(outs[v], p * lanes)
                store(k, self._apply(value, fixed[v], at), k.pointer(0), at, self.result)
            return
        in_scratch = self.result != self.dtype
        buffers = [(k.scratch, v * pixels * lanes) if in_scratch else (k.pointer(0), out) for v, out in enumerate(outs)]
        for number, value in enumerate(sums):
            base, start = buffers[number % width]
            store(k, value, base, k.add(start, number // width * lanes), self.dtype)
        for v, out in enumerate(outs):
            base, start = buffers[v]
            with loop(k, 0, pixels * lanes, lanes, name="epilogue") as turn:
                at = k.add(out, turn.index)
                value = load(k, base, k.add(start, turn.index), self.dtype, lanes)
                store(k, self._apply(value, fixed[v], at), k.pointer(0), at, self.result)

    @contextmanager
    def partial(
        self, values: Iterable[ir.Value], width: int, inside: tuple[Index, Index]
    ) -> Iterator[tuple[Index, Index, ir.Value]]:
        """A loop over the vectors of a tile that lie inside the output, in its first `inside` rows and columns.

        Yields the row, the column and the vector of each. `values`, the whole tile row by row, with `width` vectors in
        each row, are stored at the start of scratch first.
        """
        k, lanes = self.k, self.lanes
        for number, value in enumerate(values):
            store(k, value, k.scratch, number * lanes, self.dtype)
        rows, columns = inside
        with loop(k, 0, rows, name="row") as row, loop(k, 0, columns, name="column") as column:
            at = k.mul(k.add(k.mul(row.index, width), column.index), lanes)
            yield row.index, column.index, load(k, k.scratch, at, self.dtype, lanes)

    def _fixed(self, image: Index, channel: Index) -> list[ir.Value | None]:
        """Returns the operands that are the same for all pixels; None for the others."""
        k = self.k
        operands: list[ir.Value | None] = []
        for number, kind in enumerate(self._kinds):
            pointer, dtype = k.pointer(self._first + number), self._operands[number]
            if kind == "scalar":
                operands.append(splat(k, load_value(k, pointer, 0, dtype), self.lanes))
            elif kind == "channel":
                operands.append(load_value(k, pointer, channel, dtype, self.lanes))
            elif kind in ("ragged", "image"):
                mask = lane_mask(k, k.sub(self._outputs, channel), self.lanes)
                at = channel if kind == "ragged" else k.add(k.mul(image, self._outputs), channel)
                operands.append(load_value(k, pointer, at, dtype, self.lanes, mask))
            else:
                operands.append(None)
        return operands

    def _apply(self, value: ir.Value, fixed: list[ir.Value | None], at: Index) -> ir.Value:
        """Returns `value` with the epilogue applied; `at` is its offset in out."""
        k = self.k
        if self.expr is None:
            return value
        operands = [
            load_value(k, k.pointer(self._first + number), at, self.expr.operands[1 + number], self.lanes)
            if operand is None
            else operand
            for number, operand in enumerate(fixed)
        ]
        (result,) = emit_expr(k, self.expr, [value, *operands])
        return result
