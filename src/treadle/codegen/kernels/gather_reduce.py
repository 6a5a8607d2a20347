"""gather_reduce: bags of rows, picked by indices that are only known at run time, each folded into one row."""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from treadle.codegen.emit.convert import convert
from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load
from treadle.codegen.emit.vectors import splat
from treadle.codegen.kernels.fold import Fold, Rows, fold_columns
from treadle.codegen.kernels.gather import Table
from treadle.codegen.kernels.reduce import store_result
from treadle.plan.kernel_spec import KernelSpec


def emit_gather_reduce(k: Kernel, spec: KernelSpec) -> None:
    """y[o, p, i, :] = the rows x[indices[o, j, i], :] for every j of piece p, times weights[o, j, i] if there are any, folded.

    Every element is folded in the order of j, as by `emit_reduce_columns`. A unit is a row of y. A row is done `vectors`
    at a time; the last ones overlap those before. While one row is added, that which is needed `ahead` rows later is
    asked for.

    Params: how, source, folded, result, lanes, long, mean (as of `emit_reduce_columns`), wide (indices are i64), weighted,
    flat (there is one piece and one i), vectors, lines (of the cache to ask for ahead; maybe none). Pointers: y, x,
    indices, weights.
    Args: units, units a chunk, j in all, j a piece, pieces, the count that a mean divides by, numbers of i, elements
    of a row >= lanes, rows of x, j of all o, ahead.
    """
    n, piece, pieces, inner, length = k.arg(2), k.arg(3), k.arg(4), k.arg(6), k.arg(7)
    if spec["flat"]:
        piece, pieces, inner = n, 1, 1
    lanes, vectors = spec["lanes"], spec["vectors"]
    begin, end = k.chunk_range(k.arg(0), k.arg(1))
    fold = Fold(spec["how"], spec["folded"])
    with loop(k, begin, end, name="bag") as bag:
        rest = k.div(bag.index, inner)
        first = k.mul(k.rem(rest, pieces), piece)
        rows = first, k.min(k.add(first, piece), n)
        before = k.mul(k.div(rest, pieces), n)
        with loop(k, 0, length, lanes * vectors, name="tile") as tile:
            places = [k.min(k.add(tile.index, number * lanes), k.sub(length, lanes)) for number in range(vectors)]
            picked = _Bag(k, spec, before, inner, k.rem(bag.index, inner), places)
            totals, dtype = fold_columns(k, fold, picked.parts, rows, lanes, vectors, long=spec["long"])
            for place, total in zip(places, totals, strict=True):
                store_result(k, spec, total, dtype, k.add(k.mul(bag.index, length), place), None)


@dataclass(frozen=True, slots=True)
class _Bag:
    """The rows of one bag: row j has index number (`before` + j) * `inner` + `place`. Of each the vectors at `places`."""

    k: Kernel
    spec: KernelSpec
    before: Index
    inner: Index
    place: Index
    places: list[Index]

    @property
    def table(self) -> Table:
        k = self.k
        return Table(k.pointer(1), k.pointer(2), self.spec["wide"], k.arg(8), k.arg(7), self.spec["source"])

    def parts(self, first: Index, last: Index) -> list[Rows]:
        """The rows [first, last): those that have a row `ahead` of them, and the others."""
        k = self.k
        if not self.spec["lines"]:
            return [(first, last, self.row)]
        turn = k.sub(k.sub(k.arg(9), k.arg(10)), self.before)
        turn = k.max(first, k.min(turn, last))
        return [(first, turn, self.row_and_ahead), (turn, last, self.row)]

    def row_and_ahead(self, number: Index) -> list[ir.Value]:
        """Row `number`, asking for that which is needed `ahead` rows later."""
        k = self.k
        self.table.prefetch(k, self._at(k.add(number, k.arg(10))), self.spec["lines"], self.places[0])
        return self.row(number)

    def row(self, number: Index) -> list[ir.Value]:
        """Row `number`."""
        k, dtype, lanes = self.k, self.spec["source"], self.spec["lanes"]
        at, table = self._at(number), self.table
        start = table.start(k, at)
        values = [load(k, table.x, k.add(start, place), dtype, lanes) for place in self.places]
        if self.spec["weighted"]:
            weight = splat(k, load(k, k.pointer(3), at, dtype), lanes)
            values = [k.b.fmul(value, weight) if dtype.is_float else k.b.mul(value, weight) for value in values]
        return [convert(k, value, dtype, self.spec["folded"]) for value in values]

    def _at(self, number: Index) -> Index:
        return self.k.add(self.k.mul(self.k.add(self.before, number), self.inner), self.place)
