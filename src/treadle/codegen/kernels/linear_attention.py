"""linear_attention: a block of columns of a state stays in scratch while the tokens change it and read it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import Loop, loop
from treadle.codegen.emit.memory import lane_mask, load, load_masked, store, store_masked
from treadle.codegen.emit.vectors import constant, multiply_add, splat
from treadle.dtypes import f32
from treadle.plan.kernels.linear_attention import LinearAttentionArgs, LinearAttentionSpec
from treadle.records import dataclass

Vectors = Sequence[ir.Value]


def emit_linear_attention(k: Kernel, spec: LinearAttentionSpec) -> None:
    """S *= factor; S += k (outer) v, or rate (v - S^T k); y = S^T q, for each token and each head that reads S.

    A unit is a block of columns of S.
    """
    args = k.args(LinearAttentionArgs[ir.Value], spec)
    lanes = k.target.lanes(f32)
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="unit") as unit:
        head, block = k.div(unit.index, args.blocks), k.rem(unit.index, args.blocks)
        column = k.mul(block, spec.vectors * lanes)
        masks = [lane_mask(k, k.sub(k.sub(args.value, column), i * lanes), lanes) for i in range(spec.vectors)]
        _State(k, spec, args, head, column, masks, lanes).run()


@dataclass(frozen=True, slots=True)
class _State:
    """A block of columns of the state of one head, the vectors of a row one after another in scratch."""

    k: Kernel
    spec: LinearAttentionSpec
    args: LinearAttentionArgs[ir.Value]
    head: Index
    """The number of the head, over all of the batch."""
    column: Index
    masks: Vectors
    """Which columns of the block there are."""
    lanes: int

    def run(self) -> None:
        """Take the first state, let the tokens change it, and store the last one."""
        k, spec, args = self.k, self.spec, self.args
        place = k.add(k.mul(self.head, k.mul(args.key, args.value)), self.column)
        with loop(k, 0, args.key, name="first") as row:
            source = k.add(place, k.mul(row.index, args.value))
            self._keep(row.index, self._load(k.pointer(5), source) if spec.has_state else self._zeros())
        with loop(k, 0, args.tokens, name="token") as token:
            self._token(token.index)
        with loop(k, 0, args.key, name="last") as row:
            self._store(self._row(row.index), k.pointer(1), k.add(place, k.mul(row.index, args.value)))

    def _token(self, token: Index) -> None:
        k, spec, args = self.k, self.spec, self.args
        batch, head = k.div(self.head, args.shared), k.rem(self.head, args.shared)
        at = k.add(k.mul(batch, args.tokens), token)
        own = k.add(k.mul(at, args.shared), head)
        keys = k.at(k.pointer(3), k.mul(own, args.key), f32)
        added = self._load(k.pointer(4), k.add(k.mul(own, args.value), self.column))
        if spec.has_rates:
            found = self._found(keys, own)
            place = k.add(k.mul(at, args.rate_heads), k.min(head, k.sub(args.rate_heads, 1)))
            rate = self._spread(k.pointer(5 + spec.has_state + (spec.factors != "none")), place)
            added = [k.b.fmul(rate, k.b.fsub(*pair)) for pair in zip(added, found, strict=True)]
        readers = k.mul(args.shared, args.readers)
        source = k.add(k.mul(at, k.div(readers, args.sharers)), k.div(k.mul(head, args.readers), args.sharers))
        target = k.add(k.mul(at, readers), k.mul(head, args.readers))
        with self._read(source) as (row, queries):
            now = self._row(row.index) if spec.has_rates else self._scaled(row.index, own)
            key = self._spread(keys, row.index)
            now = [multiply_add(k, key, *pair) for pair in zip(added, now, strict=True)]
            self._keep(row.index, now)
            self._add(row, queries, now)
        self._give(row, target)
        with loop(k, 1, args.readers, name="reader") as reader:
            with self._read(k.add(source, reader.index)) as (row, queries):
                self._add(row, queries, self._row(row.index))
            self._give(row, k.add(target, reader.index))

    def _found(self, keys: ir.Value, own: Index) -> Vectors:
        """What the state, multiplied by its factors, gives for the token's key."""
        k = self.k
        with loop(k, 0, self.args.key, carry=self._zeros(), name="found") as row:
            now = self._scaled(row.index, own)
            if self.spec.factors != "none":
                self._keep(row.index, now)
            self._add(row, keys, now)
        return row.carry

    def _scaled(self, row: Index, own: Index) -> Vectors:
        """A row of the state times the token's factor for it."""
        k, spec = self.k, self.spec
        if spec.factors == "none":
            return self._row(row)
        place = own if spec.factors == "head" else k.add(k.mul(own, self.args.key), row)
        factor = self._spread(k.pointer(5 + spec.has_state), place)
        return [k.b.fmul(each, factor) for each in self._row(row)]

    @contextmanager
    def _read(self, source: Index) -> Iterator[tuple[Loop, ir.Value]]:
        """A loop over the rows of the state whose carry is what the head `source` of queries gets; its query."""
        k, key = self.k, self.args.key
        queries = k.at(k.pointer(2), k.mul(source, key), f32)
        with loop(k, 0, key, carry=self._zeros(), name="read") as row:
            yield row, queries

    def _add(self, row: Loop, factors: ir.Value, now: Vectors) -> None:
        """Add the row `now` of the state, times its factor, to what the loop carries."""
        factor = self._spread(factors, row.index)
        row.next(*(multiply_add(self.k, factor, *pair) for pair in zip(now, row.carry, strict=True)))

    def _give(self, row: Loop, target: Index) -> None:
        self._store(row.carry, self.k.pointer(0), self.k.add(self.k.mul(target, self.args.value), self.column))

    def _zeros(self) -> Vectors:
        return [constant(f32, 0.0, self.lanes)] * self.spec.vectors

    def _spread(self, base: ir.Value, place: Index) -> ir.Value:
        return splat(self.k, load(self.k, base, place, f32), self.lanes)

    def _row(self, row: Index) -> Vectors:
        k, places = self.k, self._places(row)
        return [load(k, k.scratch, place, f32, self.lanes) for place in places]

    def _keep(self, row: Index, values: Vectors) -> None:
        k, places = self.k, self._places(row)
        for place, value in zip(places, values, strict=True):
            store(k, value, k.scratch, place, f32)

    def _places(self, row: Index) -> list[Index]:
        k, width = self.k, self.spec.vectors * self.lanes
        return [k.add(k.mul(row, width), i * self.lanes) for i in range(self.spec.vectors)]

    def _load(self, base: ir.Value, place: Index) -> Vectors:
        k, zero = self.k, constant(f32, 0.0, self.lanes)
        return [
            load_masked(k, base, k.add(place, i * self.lanes), f32, mask, zero) for i, mask in enumerate(self.masks)
        ]

    def _store(self, values: Vectors, base: ir.Value, place: Index) -> None:
        for i, (value, mask) in enumerate(zip(values, self.masks, strict=True)):
            store_masked(self.k, value, base, self.k.add(place, i * self.lanes), f32, mask)
