"""argmax and argmin: the extreme element of each row, or of whole vectors of columns at once."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.kernel import Index, Kernel
from treadle.codegen.emit.loops import loop
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import I32, I64, lanes_of
from treadle.codegen.emit.vectors import splat
from treadle.dtypes import DType, i64
from treadle.plan.kernels.arg_reduce import ArgReduceArgs, ArgReduceSpec
from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class _Order:
    """Which of two elements wins. A NaN beats every number; of equals the first or the last wins."""

    k: Kernel
    dtype: DType
    largest: bool
    last: bool

    def strictly(self, new: ir.Value, old: ir.Value) -> ir.Value:
        """Whether new is more extreme than old."""
        b, sign = self.k.b, ">" if self.largest else "<"
        if not self.dtype.is_float:
            compare = b.icmp_signed if self.dtype.kind == "int" else b.icmp_unsigned
            return compare(sign, new, old)
        only_new = b.and_(b.fcmp_unordered("uno", new, new), b.fcmp_ordered("ord", old, old))
        return b.or_(b.fcmp_ordered(sign, new, old), only_new)

    def follows(self, new: ir.Value, old: ir.Value) -> ir.Value:
        """Whether new, which has the greater position, wins over old."""
        return self.k.b.not_(self.strictly(old, new)) if self.last else self.strictly(new, old)

    def beats(self, new: tuple[ir.Value, ir.Value], old: tuple[ir.Value, ir.Value]) -> ir.Value:
        """Whether (element, position) new wins over old, in any order of positions."""
        b = self.k.b
        equal = b.not_(b.or_(self.strictly(new[0], old[0]), self.strictly(old[0], new[0])))
        nearer = b.icmp_signed(">" if self.last else "<", new[1], old[1])
        return b.or_(self.strictly(new[0], old[0]), b.and_(equal, nearer))


def emit_arg_reduce(k: Kernel, spec: ArgReduceSpec) -> None:
    """y[o, i] = the position j (i64) of the extreme element of x[o, :, i]. A unit is an o."""
    args = k.args(ArgReduceArgs[ir.Value], spec)
    dtype, size, inner = spec.dtype, args.size, args.inner
    order = _Order(k, dtype, spec.largest, spec.last)
    lanes = k.target.lanes(dtype) if dtype.size >= 4 else 1
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    if spec.single:
        with loop(k, begin, end, name="row") as row:
            store(k, _in_row(k, order, k.mul(row.index, size), size, lanes), k.pointer(0), row.index, i64)
        return
    with loop(k, begin, end, name="outer") as outer:
        base, target = k.mul(outer.index, k.mul(size, inner)), k.mul(outer.index, inner)
        whole = k.mul(k.div(inner, lanes), lanes)
        with loop(k, 0, whole, lanes, name="column") as column:
            found = _in_columns(k, order, k.add(base, column.index), size, inner, lanes)
            store(k, found, k.pointer(0), k.add(target, column.index), i64)
        with loop(k, whole, inner, name="rest") as column:
            found = _in_columns(k, order, k.add(base, column.index), size, inner, 1)
            store(k, found, k.pointer(0), k.add(target, column.index), i64)


def _in_columns(k: Kernel, order: _Order, first: Index, size: Index, inner: Index, lanes: int) -> ir.Value:
    """For each of `lanes` columns from element `first` on, the position of its extreme element."""
    best = load(k, k.pointer(1), first, order.dtype, lanes)
    with loop(k, 1, size, carry=[best, splat(k, I64(0), lanes)], name="step") as step:
        new = load(k, k.pointer(1), k.add(first, k.mul(step.index, inner)), order.dtype, lanes)
        wins = order.follows(new, step.carry[0])
        here = splat(k, step.index, lanes)
        step.next(k.b.select(wins, new, step.carry[0]), k.b.select(wins, here, step.carry[1]))
    return step.carry[1]


def _in_row(k: Kernel, order: _Order, first: Index, size: Index, lanes: int) -> ir.Value:
    """The position of the extreme element of the row of `size` elements from `first` on."""
    x = k.pointer(1)
    element = load(k, x, first, order.dtype)
    best, at = element, I64(0)
    start: Index = 0
    if lanes > 1:
        width = ir.IntType(8 * order.dtype.size)
        iota = ir.Constant(ir.VectorType(width, lanes), list(range(lanes)))
        start = k.mul(k.div(size, lanes), lanes)
        carry = [splat(k, element, lanes), ir.Constant(iota.type, None)]
        with loop(k, 0, start, lanes, carry=carry, name="vector") as turn:
            new = load(k, x, k.add(first, turn.index), order.dtype, lanes)
            base = turn.index if width.width == I64.width else k.b.trunc(turn.index, width)
            here = k.b.add(splat(k, base, lanes), iota)
            wins = order.follows(new, turn.carry[0])
            turn.next(k.b.select(wins, new, turn.carry[0]), k.b.select(wins, here, turn.carry[1]))
        best, at = _best_lane(k, order, turn.carry[0], turn.carry[1])
    with loop(k, start, size, carry=[best, at], name="element") as turn:
        new = load(k, x, k.add(first, turn.index), order.dtype)
        wins = order.follows(new, turn.carry[0])
        turn.next(k.b.select(wins, new, turn.carry[0]), k.b.select(wins, turn.index, turn.carry[1]))
    return turn.carry[1]


def _best_lane(k: Kernel, order: _Order, elements: ir.Value, positions: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The winning element among lanes, and its position as an i64."""
    found: tuple[ir.Value, ir.Value] | None = None
    for lane in range(lanes_of(elements.type)):
        new = k.b.extract_element(elements, I32(lane)), k.b.extract_element(positions, I32(lane))
        if found is None:
            found = new
            continue
        wins = order.beats(new, found)
        found = k.b.select(wins, new[0], found[0]), k.b.select(wins, new[1], found[1])
    assert found is not None
    position = found[1]
    return found[0], k.b.sext(position, I64) if position.type.width < I64.width else position
