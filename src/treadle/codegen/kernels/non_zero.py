"""non_zero: one kernel counts, so that the other knows where each chunk writes."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import I64
from treadle.dtypes import DType, i64
from treadle.plan.kernels.non_zero import CountNonZeroArgs, CountNonZeroSpec, NonZeroArgs, NonZeroSpec


def emit_count_non_zero(k: Kernel, spec: CountNonZeroSpec) -> None:
    """counts[chunk] = how many elements of this chunk of x are not 0."""
    args = k.args(CountNonZeroArgs[ir.Value], spec)
    begin, end = k.chunk_range(args.size, args.size_per_chunk)
    with loop(k, begin, end, carry=[I64(0)], name="element") as element:
        found = _is_set(k, k.pointer(1), element.index, spec.dtype)
        element.next(k.b.add(element.carry[0], k.b.zext(found, I64)))
    store(k, element.carry[0], k.pointer(0), k.chunk, i64)


def emit_non_zero(k: Kernel, spec: NonZeroSpec) -> None:
    """found[:, n] = the position of the n-th element of x that is not 0; total[0] = how many there are."""
    args = k.args(NonZeroArgs[ir.Value], spec)
    found, number, x, counts = (k.pointer(index) for index in range(4))
    with loop(k, 0, args.chunks, carry=[I64(0), I64(0)], name="chunk") as chunk:
        count = load(k, counts, chunk.index, i64)
        before = k.b.select(k.less(chunk.index, k.chunk), count, I64(0))
        chunk.next(k.b.add(chunk.carry[0], before), k.b.add(chunk.carry[1], count))
    place, total = chunk.carry
    with when(k, k.b.icmp_signed("==", k.chunk, I64(0))):
        store(k, total, number, 0, i64)
    begin, end = k.chunk_range(args.size, args.size_per_chunk)
    with loop(k, begin, end, carry=[place], name="element") as element:
        is_set = _is_set(k, x, element.index, spec.dtype)
        with when(k, is_set):
            rest: Index = element.index
            for axis in reversed(range(spec.rank)):
                at = rest if axis == 0 else k.rem(rest, args.shape[axis])
                store(k, as_i64(at), found, k.add(k.mul(total, axis), element.carry[0]), i64)
                if axis:
                    rest = k.div(rest, args.shape[axis])
        element.next(k.b.add(element.carry[0], k.b.zext(is_set, I64)))


def _is_set(k: Kernel, x: ir.Value, index: Index, dtype: DType) -> ir.Value:
    """Whether x[index] is not 0: NaN is not."""
    element = load(k, x, index, dtype)
    if dtype.is_float:
        return k.b.fcmp_unordered("!=", element, ir.Constant(element.type, 0.0))
    return k.b.icmp_unsigned("!=", element, ir.Constant(element.type, 0))
