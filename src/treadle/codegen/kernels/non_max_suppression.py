"""non_max_suppression: boxes leave a heap, highest score first, and are compared with those that are kept so far."""

from __future__ import annotations

from llvmlite import ir

from treadle.codegen.emit.heap import Heap
from treadle.codegen.emit.kernel import Index, Kernel, as_i64
from treadle.codegen.emit.lanes import any_lane, repeat_while
from treadle.codegen.emit.loops import loop, when
from treadle.codegen.emit.memory import load, store
from treadle.codegen.emit.types import I64
from treadle.codegen.emit.vectors import binary_intrinsic, like, splat
from treadle.dtypes import f32, i64
from treadle.plan.kernels.non_max_suppression import (
    CORNERS,
    ListBoxesArgs,
    ListBoxesSpec,
    SuppressBoxesArgs,
    SuppressBoxesSpec,
)
from treadle.records import dataclass


def emit_suppress_boxes(k: Kernel, spec: SuppressBoxesSpec) -> None:
    """kept[unit, :counts[unit]] = boxes in order of their scores, none of which overlaps an earlier one too much."""
    args = k.args(SuppressBoxesArgs[ir.Value], spec)
    kept, counts, boxes, scores = (k.pointer(index) for index in range(4))
    most = k.min(load(k, k.pointer(4), 0, i64), args.room)
    overlap, least = load(k, k.pointer(5), 0, f32), load(k, k.pointer(6), 0, f32)
    lanes = k.target.vector_bytes // f32.size
    begin, end = k.chunk_range(args.units, args.units_per_chunk)
    with loop(k, begin, end, name="unit") as unit:
        own = k.at(scores, k.mul(unit.index, args.boxes), f32)
        image = k.at(boxes, k.mul(k.div(unit.index, args.classes), k.mul(args.boxes, 4)), f32)
        with loop(k, 0, args.boxes, carry=[I64(0)], name="box") as box:
            (size,) = box.carry
            store(k, box.index, k.scratch, size, i64)
            above = k.b.fcmp_ordered(">", load(k, own, box.index, f32), least)
            box.next(k.b.add(size, k.b.zext(above, I64)))
        heap = _Heap(k, own)
        candidates = box.carry[0]
        with loop(k, 0, k.div(candidates, 2), name="heapify") as turn:
            place = k.sub(k.sub(k.div(candidates, 2), 1), turn.index)
            heap.sift(place, heap.at(place), candidates)
        row = k.at(kept, k.mul(unit.index, args.room), i64)
        corners = _Corners(k, spec, args.boxes, k.add(args.room, lanes), lanes)
        corners.clear(args.room)

        def unfinished(state: list[ir.Value], most: Index = most) -> ir.Value:
            return k.b.and_(k.less(0, state[0]), k.less(state[1], most))

        def take(
            state: list[ir.Value], heap: _Heap = heap, image: ir.Value = image, row: ir.Value = row,
            corners: _Corners = corners,
        ) -> list[ir.Value]:  # fmt: skip
            best, left = heap.at(0), k.b.sub(state[0], I64(1))
            with when(k, k.less(0, left)):
                heap.sift(0, heap.at(left), left)
            new = corners.of(image, best)
            stays = k.b.not_(corners.meet(new, state[1], overlap))
            with when(k, stays):
                store(k, best, row, state[1], i64)
                corners.put(new, state[1])
            return [left, k.b.add(state[1], k.b.zext(stays, I64))]

        _, count = repeat_while(k, [candidates, I64(0)], unfinished, take)
        store(k, count, counts, unit.index, i64)


@dataclass(frozen=True, slots=True)
class _Heap(Heap[ir.Value]):
    """The boxes at the start of the scratch: each comes before its children in the order of scores."""

    scores: ir.Value

    def at(self, place: Index) -> ir.Value:
        """The box at a place."""
        return load(self.k, self.k.scratch, place, i64)

    def put(self, place: Index, entry: ir.Value) -> None:
        """Set the box at a place."""
        store(self.k, entry, self.k.scratch, place, i64)

    def above(self, one: ir.Value, other: ir.Value) -> ir.Value:
        """Whether box `one` has the higher score, or the same and comes first."""
        k = self.k
        left, right = load(k, self.scores, one, f32), load(k, self.scores, other, f32)
        equal = k.b.and_(k.b.fcmp_ordered("==", left, right), k.less(one, other))
        return k.b.or_(k.b.fcmp_ordered(">", left, right), equal)


@dataclass(frozen=True, slots=True)
class _Corners:
    """The corners and areas of the boxes that are kept, behind the `boxes` numbers of the heap: one array of `room` f32
    for each of CORNERS."""

    k: Kernel
    spec: SuppressBoxesSpec
    boxes: Index
    room: Index
    lanes: int

    def _array(self, number: int) -> ir.Value:
        k = self.k
        return k.at(k.at(k.scratch, self.boxes, i64), k.mul(self.room, number), f32)

    def clear(self, count: Index) -> None:
        """Set the areas of `count` boxes and a vector more to 0: what has no area meets nothing."""
        k = self.k
        areas = self._array(len(CORNERS) - 1)
        with loop(k, 0, k.add(count, self.lanes), name="clear") as each:
            store(k, ir.Constant(ir.FloatType(), 0.0), areas, each.index, f32)

    def of(self, image: ir.Value, box: ir.Value) -> list[ir.Value]:
        """The numbers of CORNERS of a box."""
        k = self.k
        a, b, c, d = (load(k, image, k.add(k.mul(box, 4), at), f32) for at in range(4))
        if self.spec.center:
            two = ir.Constant(a.type, 2.0)
            half = [k.b.fdiv(c, two), k.b.fdiv(d, two)]
            lows = [k.b.fsub(a, half[0]), k.b.fsub(b, half[1])]
            highs = [k.b.fadd(a, half[0]), k.b.fadd(b, half[1])]
        else:
            lows = [binary_intrinsic(k, "minnum", a, c), binary_intrinsic(k, "minnum", b, d)]
            highs = [binary_intrinsic(k, "maxnum", a, c), binary_intrinsic(k, "maxnum", b, d)]
        area = k.b.fmul(k.b.fsub(highs[0], lows[0]), k.b.fsub(highs[1], lows[1]))
        return [*lows, *highs, area]

    def put(self, box: list[ir.Value], place: ir.Value) -> None:
        """Keep a box."""
        for number, value in enumerate(box):
            store(self.k, value, self._array(number), place, f32)

    def meet(self, box: list[ir.Value], count: ir.Value, overlap: ir.Value) -> ir.Value:
        """Whether a box overlaps one of the `count` boxes that are kept by more than `overlap` of their union."""
        k = self.k

        def unfinished(state: list[ir.Value]) -> ir.Value:
            return k.b.and_(k.less(state[0], count), k.less(state[1], 1))

        def compare(state: list[ir.Value]) -> list[ir.Value]:
            one = [load(k, self._array(number), state[0], f32, self.lanes) for number in range(len(CORNERS))]
            far = self._meets(one, [splat(k, value, self.lanes) for value in box], splat(k, overlap, self.lanes))
            return [k.b.add(state[0], I64(self.lanes)), k.b.zext(any_lane(k, far), I64)]

        return k.less(0, repeat_while(k, [I64(0), I64(0)], unfinished, compare)[1])

    def _meets(self, one: list[ir.Value], other: list[ir.Value], overlap: ir.Value) -> ir.Value:
        k, zero = self.k, like(overlap, 0.0)
        sides = []
        for axis in (0, 1):
            low = binary_intrinsic(k, "maxnum", one[axis], other[axis])
            high = binary_intrinsic(k, "minnum", one[2 + axis], other[2 + axis])
            sides.append(k.b.fsub(high, low))
        both = k.b.fmul(*sides)
        union = k.b.fsub(k.b.fadd(one[4], other[4]), both)
        meets = k.b.fcmp_ordered(">", k.b.fdiv(both, union), overlap)
        for number in (*sides, one[4], other[4], union):
            meets = k.b.and_(meets, k.b.fcmp_ordered(">", number, zero))
        return meets


def emit_list_boxes(k: Kernel, spec: ListBoxesSpec) -> None:
    """rows = (image, class, box) for every box that is kept, in this order; n = how many there are."""
    args = k.args(ListBoxesArgs[ir.Value], spec)
    rows, number, kept, counts = (k.pointer(index) for index in range(4))
    with loop(k, 0, args.units, carry=[I64(0)], name="unit") as unit:
        count = load(k, counts, unit.index, i64)
        image, label = k.div(unit.index, args.classes), k.rem(unit.index, args.classes)
        with loop(k, 0, count, name="box") as box:
            row = k.mul(k.add(unit.carry[0], box.index), 3)
            found = load(k, kept, k.add(k.mul(unit.index, args.room), box.index), i64)
            for at, value in enumerate((image, label, found)):
                store(k, as_i64(value), rows, k.add(row, at), i64)
        unit.next(k.b.add(unit.carry[0], count))
    store(k, unit.carry[0], number, 0, i64)
