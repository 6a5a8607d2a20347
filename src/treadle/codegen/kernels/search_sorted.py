"""search_sorted: a binary search for each value."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Kernel, as_i64
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import I1, I64
from treadle.dtypes import i64
from treadle.plan.kernels.search_sorted import SearchSortedArgs, SearchSortedSpec


def emit_search_sorted(k: Kernel, spec: SearchSortedSpec) -> None:
    """positions[r, c] = how many elements of sequences[r] are in front of values[r, c].

    A unit is a value. All searches in `size` elements take as many turns: a search that has ended stays where it is.
    """
    args = k.args(SearchSortedArgs[ir.Value], spec)
    positions, sequences, values = (k.pointer(i) for i in range(3))
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    turns = k.sub(64, k.b.ctlz(as_i64(args.size), I1(0)))
    last = k.sub(args.size, 1)
    with loop(k, begin, end, name="value") as unit:
        value = load(k, values, unit.index, spec.dtype)
        base = k.mul(k.div(unit.index, args.columns), args.size)
        with loop(k, 0, turns, carry=[I64(0), as_i64(args.size)], name="turn") as turn:
            low, count = turn.carry
            half = k.b.lshr(count, I64(1))
            middle = k.b.add(low, half)
            inside = k.b.select(k.b.icmp_signed("<", middle, as_i64(last)), middle, as_i64(last))
            found = load(k, sequences, k.add(base, inside), spec.dtype)
            goes_on = k.b.and_(_is_in_front(k, spec, found, value), k.b.icmp_signed(">", count, I64(0)))
            rest = k.b.sub(k.b.sub(count, half), I64(1))
            turn.next(k.b.select(goes_on, k.b.add(middle, I64(1)), low), k.b.select(goes_on, rest, half))
        store(k, turn.carry[0], positions, unit.index, i64)


def _is_in_front(k: Kernel, spec: SearchSortedSpec, element: ir.Value, value: ir.Value) -> ir.Value:
    """Whether the value goes behind the element: NaN goes behind all, and all go behind NaN."""
    order = "<=" if spec.right else "<"
    if spec.dtype.is_float:
        return k.b.fcmp_unordered(order, element, value)
    return (k.b.icmp_signed if spec.dtype.kind == "int" else k.b.icmp_unsigned)(order, element, value)
