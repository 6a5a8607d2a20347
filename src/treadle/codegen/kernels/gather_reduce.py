"""gather_reduce: bags of rows, picked by indices that are only known at run time, each folded into one row."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.vectors import splat
from treadle.codegen.kernels.fold import Fold, Rows, fold_columns
from treadle.codegen.kernels.gather import Table
from treadle.codegen.kernels.reduce import store_result
from treadle.plan.kernels.gather_reduce import GatherReduceArgs, GatherReduceSpec
from treadle.records import dataclass


def emit_gather_reduce(k: Kernel, spec: GatherReduceSpec) -> None:
    """y[o, p, i, :] = the rows x[indices[o, j, i], :] for every j of piece p, folded; with weights,
    times weights[o, j, i].

    Every element is folded in the order of j, as by `emit_reduce_columns`. A unit is a row of y. A row is folded
    `vectors` vectors at a time; the last ones overlap those before. While one row is folded, the row `distance` later
    is prefetched.
    """
    args = k.args(GatherReduceArgs[ir.Value], spec)
    n, length = args.n, args.length
    piece: Index = n if spec.flat else args.piece
    pieces: Index = 1 if spec.flat else args.pieces
    inner: Index = 1 if spec.flat else args.inner
    lanes, vectors = spec.lanes, spec.vectors
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    fold = Fold(spec.how, spec.folded)
    with loop(k, begin, end, name="bag") as bag:
        rest = k.div(bag.index, inner)
        first = k.mul(k.rem(rest, pieces), piece)
        rows = first, k.min(k.add(first, piece), n)
        before = k.mul(k.div(rest, pieces), n)
        with loop(k, 0, length, lanes * vectors, name="tile") as tile:
            offsets = [k.min(k.add(tile.index, number * lanes), k.sub(length, lanes)) for number in range(vectors)]
            picked = _Bag(k, spec, args, before, inner, k.rem(bag.index, inner), offsets)
            totals, dtype = fold_columns(k, fold, picked.parts, rows, lanes, vectors, long=spec.long)
            for offset, total in zip(offsets, totals, strict=True):
                store_result(k, spec, args.count, total, dtype, k.add(k.mul(bag.index, length), offset), None)


@dataclass(frozen=True, slots=True)
class _Bag:
    """The rows of one bag: row j has index number (`before` + j) * `inner` + `position`. Of each row the vectors at
    `offsets` are read."""

    k: Kernel
    spec: GatherReduceSpec
    args: GatherReduceArgs[ir.Value]
    before: Index
    inner: Index
    position: Index
    offsets: list[Index]

    @property
    def table(self) -> Table:
        """The rows of x."""
        k, spec, args = self.k, self.spec, self.args
        return Table(k.pointer(1), k.pointer(2), spec.wide, args.size, args.length, spec.source)

    def parts(self, first: Index, last: Index) -> list[Rows]:
        """The rows [first, last) in two parts: those whose row `distance` later exists, and the others."""
        k = self.k
        if not self.spec.lines:
            return [(first, last, self.row)]
        turn = k.sub(k.sub(self.args.total, self.args.distance), self.before)
        turn = k.max(first, k.min(turn, last))
        return [(first, turn, self.row_and_prefetch), (turn, last, self.row)]

    def row_and_prefetch(self, number: Index) -> list[ir.Value]:
        """Row `number`; prefetches the row that is folded `distance` rows later."""
        k = self.k
        self.table.prefetch(k, self._at(k.add(number, self.args.distance)), self.spec.lines, self.offsets[0])
        return self.row(number)

    def row(self, number: Index) -> list[ir.Value]:
        """Row `number`."""
        k, dtype, lanes = self.k, self.spec.source, self.spec.lanes
        at, table = self._at(number), self.table
        start = table.start(k, at)
        values = [load(k, table.x, k.add(start, offset), dtype, lanes) for offset in self.offsets]
        if self.spec.weighted:
            weight = splat(k, load(k, k.pointer(3), at, dtype), lanes)
            values = [k.b.fmul(value, weight) if dtype.is_float else k.b.mul(value, weight) for value in values]
        return [convert(k, value, dtype, self.spec.folded) for value in values]

    def _at(self, number: Index) -> Index:
        return self.k.add(self.k.mul(self.k.add(self.before, number), self.inner), self.position)
