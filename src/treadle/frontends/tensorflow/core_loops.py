"""Loops of the native core for loops of TensorFlow: counted variables, and lists as sliced and stacked values.

A variable that every iteration adds a constant to is no carried value: its value follows from the number of the
iteration. Where the test compares such variables with numbers, it is the limit of the loop. Items that are read at such
a variable are those of a sliced value, and items that are written at one are those of a stacked value. An item that
every iteration writes is a carried value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.core_bodies import needs_python, same_forms
from treadle.frontends.tensorflow.core_lists import Items, drop_unread_lists
from treadle.frontends.tensorflow.emitter import Emitter
from treadle.frontends.tensorflow.list_loops import ListAccess, SplitStep
from treadle.graph.dim import at_least, equals, is_expression, maximum, minimum
from treadle.graph.graph import Graph, link
from treadle.graph.shape import elements
from treadle.graph.value import Value
from treadle.ops.sizes import known_sizes

MOST_PADDED_BYTES = 1 << 26
"""A loop that data may end gets memory for all iterations up to this size."""

_COMPARISONS = {"lt": (0, 1, 0), "le": (0, 1, 1), "gt": (1, 0, 0), "ge": (1, 0, 1)}
"""Comparison -> the operand that must be the smaller one, the other one, and what to add to that for `lt`."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A variable that begins with the number `first` and grows by `step` in every iteration."""

    first: int
    step: int


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest number of iterations that counters allow, if they do; `is_whole` if nothing else ends the loop."""

    most: int | None
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Writes:
    """Where a loop writes a list: its items before the loop, the first index, and how many items there are after it.

    If `repeats`, every iteration writes the item at the first index.
    """

    items: Items
    first: int
    count: int
    repeats: bool = False


class CoreLoop:
    """A loop in the making.

    `values` are the variables before the loop; `body` computes, from those that are tensors and from items, what
    `split.wanted` says, then the test; `items` are those of lists, by the number of the variable. There are at most
    `limit` iterations, if that is given.
    """

    def __init__(
        self,
        values: Sequence[Value],
        split: SplitStep[Any],
        body: Graph,
        test: Graph,
        items: dict[int, Items],
        limit: int | None = None,
    ) -> None:
        self._values = values
        self._split = split
        self._body = body
        self._items = items
        self._place = {parameter: place for place, parameter in enumerate(split.plain)}
        self._slots = split.next_slots()
        self._counters = {place: found for place in range(len(split.plain)) if (found := self._counter(place))}
        self._limit = self._limit_of(test, limit)

    def add(self, e: Emitter, condition: Value) -> tuple[dict[int, Value], dict[int, Items]] | None:
        """Add the loop; `condition` says whether there is a first iteration.

        Returns the variables that change, by their numbers, and the items of lists that are written; None if the native
        core cannot run the loop.
        """
        changed = [place for place, slot in enumerate(self._slots) if slot is not None]
        carried = [place for place in changed if place not in self._counters]
        plain = [self._values[parameter] for parameter in self._split.plain]
        after = [self._body.outputs[self._slots[place] or 0] for place in carried]
        again = self._body.outputs[-1]
        drop_unread_lists(self._body)
        if not same_forms([plain[place] for place in carried], after) or needs_python(self._body):
            return None
        if (again.dtype, again.shape) != (dtypes.boolean, ()) or not (changed or self._split.writes):
            return None
        reads, writes = self._reads(e), self._writes()
        if reads is None or writes is None:
            return None
        written = [self._body.outputs[slot] for _, slot in self._split.writes]
        repeated, stacked = (
            [value for value, write in zip(written, writes, strict=True) if write.repeats is repeats]
            for repeats in (True, False)
        )
        kept = [self._before(e, write, value) for write, value in zip(writes, written, strict=True) if write.repeats]
        padded = not self._limit.is_whole and bool(stacked)
        if padded and not self._is_small(stacked):
            return None
        captured = [place for place in range(len(plain)) if place not in carried]
        self._rewrite(carried, captured, repeated, stacked)
        whole, most = self._limit.is_whole, self._limit.most
        operands = [
            None if most is None else e.sizes(most, dtypes.i64),
            None if whole else condition,
            *(plain[place] for place in carried),
            *kept,
            *reads,
            *(plain[place] for place in captured),
        ]
        attrs = {"body": self._body, "carried": len(carried) + len(kept), "sliced": len(reads), "padded": padded}
        *found, made = e.add_many("loop", operands, len(carried) + len(written) + 1, **attrs)
        results = {self._split.plain[place]: value for place, value in zip(carried, found, strict=False)}
        for place in changed:
            if place in self._counters:
                results[self._split.plain[place]] = self._last(e, place, made)
        lasts, stacks = iter(found[len(carried) :][: len(kept)]), iter(found[len(carried) + len(kept) :])
        lists: dict[int, Items] = {}
        for (access, _), write in zip(self._split.writes, writes, strict=True):
            if write.repeats:
                last = next(lasts)
                tensor = _filled(e, write, e.reshape(last, [1, *last.static_shape]), made, padded=False)
            else:
                tensor = _filled(e, write, next(stacks), made, padded=padded)
            lists[access.parameter] = replace(write.items, tensor=tensor, count=write.count)
        return results, lists

    def _counter(self, place: int) -> Counter | None:
        """Return the variable at `place` of the tensors as a counter, if it is one."""
        slot, value = self._slots[place], self._values[self._split.plain[place]]
        first = known_sizes(value)
        if slot is None or first is None or value.shape != () or value.dtype not in (dtypes.i32, dtypes.i64):
            return None
        step = _added(self._body.outputs[slot], self._body.inputs[place])
        return None if step is None else Counter(first[0], step)

    def _limit_of(self, test: Graph, most: int | None) -> Limit:
        """Return what counters say in the test, whose inputs are the variables that are tensors; at most `most`."""
        bounds = [] if most is None else [most]
        whole = True
        pending = [test.outputs[0]]
        while pending:
            value = source(pending.pop())
            made = value.producer
            if made is not None and made.op == "and":
                pending += [made.operand(0), made.operand(1)]
                continue
            found, is_all = self._bounds(value, test)
            bounds += found
            whole = whole and is_all
        if not bounds:
            return Limit(None, is_whole=False)
        return Limit(maximum(minimum(*bounds), 0), whole)

    def _bounds(self, value: Value, test: Graph) -> tuple[list[int], bool]:
        """Return the most iterations while a comparison is true, and whether it is true in all of these."""
        made = value.producer
        if made is None or made.op not in _COMPARISONS:
            return [], False
        smaller, greater, more = _COMPARISONS[made.op]
        counted, bound = source(made.operand(smaller)), source(made.operand(greater))
        places = {given: place for place, given in enumerate(test.inputs)}
        counter = self._counters.get(places.get(counted, -1))
        if counter is None or counter.step != 1:
            return [], False
        if bound in places:
            place = places[bound]
            if self._slots[place] is not None:
                return [], False
            bound = self._values[self._split.plain[place]]
        known, is_all = _least_known(bound)
        return [number + more - counter.first for number in known], is_all

    def _reads(self, e: Emitter) -> list[Value] | None:
        """Return what is sliced, or read as it is, for each item that the body takes; None if that is not possible."""
        sliced: list[Value] = []
        most = self._limit.most
        for access in self._split.reads:
            items = self._items[access.parameter]
            first = None if access.index is None else self._first(access)
            if first is None or items.tensor is None or most is None or access.parameter in self._split.changed:
                return None
            if not (at_least(first, 0) and at_least(items.count - first - most, 0)):
                return None
            sliced.append(_part(e, items.tensor, first, first + most, items.count))
        lists = [access.parameter for access in self._split.reads]
        if any(self._items[parameter].clears and lists.count(parameter) > 1 for parameter in lists):
            return None
        return sliced

    def _writes(self) -> list[Writes] | None:
        """Return where each write goes; None if that is not known."""
        writes = [
            self._repeated_write(access, slot) or self._counted_write(access, slot)
            for access, slot in self._split.writes
        ]
        found = [write for write in writes if write is not None]
        parameters = {access.parameter for access, _ in self._split.writes}
        return found if len(found) == len(parameters) == len(writes) else None

    def _counted_write(self, access: ListAccess, slot: int) -> Writes | None:
        """Return the write at an index that grows by 1; None for others."""
        items, value, most = self._items[access.parameter], self._body.outputs[slot], self._limit.most
        first = None if access.index is None else self._first(access)
        if first is None or most is None or value.shape is None or value.dtype != items.dtype:
            return None
        if (items.once and items.tensor is not None) or not at_least(first, 0):
            return None
        count = maximum(items.count, first + most) if access.resize and self._limit.is_whole else items.count
        if not at_least(count - first - most, 0):
            return None
        fills = not (self._limit.is_whole and equals(first, 0) and equals(count, most))
        has_form = items.form() in (None, (items.dtype, value.static_shape)) and _fits(items, value.static_shape)
        has_zeros = items.dims is not None and None not in items.dims
        is_possible = has_form and (has_zeros or items.tensor is not None or not fills)
        return Writes(items, first, count) if is_possible else None

    def _repeated_write(self, access: ListAccess, slot: int) -> Writes | None:
        """Return the write at an index that stays the same; None for others."""
        items, value = self._items[access.parameter], self._body.outputs[slot]
        index = None if access.index is None else self._repeated(access.index)
        if index is None or not self._may_repeat(items, index, value):
            return None
        return Writes(items, index, items.count, repeats=True)

    def _repeated(self, index: int) -> int | None:
        """Return the index that every iteration writes; None if it changes, or is not known."""
        place = self._place.get(index)
        if place is not None:
            value = self._values[index] if self._slots[place] is None else None
        else:
            value = source(self._body.outputs[index - len(self._values)])
        known = None if value is None else known_sizes(value)
        return known[0] if known is not None and len(known) == 1 else None

    def _may_repeat(self, items: Items, index: int, value: Value) -> bool:
        """Return whether a list with these items can have `value` written at `index` by every iteration."""
        if value.shape is None or value.dtype != items.dtype or not _fits(items, value.static_shape):
            return False
        if items.once or not (at_least(index, 0) and at_least(items.count - index, 1)):
            return False
        if items.form() not in (None, (items.dtype, value.static_shape)):
            return False
        is_written = self._is_entered() and equals(items.count, 1)
        return is_written or items.tensor is not None or (items.dims is not None and None not in items.dims)

    def _is_entered(self) -> bool:
        """Return whether there is a first iteration."""
        most = self._limit.most
        return self._limit.is_whole and most is not None and at_least(most, 1)

    def _before(self, e: Emitter, write: Writes, value: Value) -> Value:
        """Return the item that every iteration writes, as it is before the loop; its form is that of `value`."""
        dims = list(value.static_shape)
        if self._is_entered():
            return e.full(dims, 0, value.known_dtype)
        return e.reshape(_old(e, write.items, write.first, write.first + 1, dims), dims)

    def _first(self, access: ListAccess) -> int | None:
        """Return the index of an access in the first iteration, if every iteration adds 1 to it."""
        index, count = access.index, len(self._values)
        assert index is not None
        if index < count:
            return self._counted(self._place.get(index), access.offset)
        value = source(self._body.outputs[index - count])
        for place in self._counters:
            given = self._body.inputs[place]
            added = 0 if value is given else _added(value, given)
            if added is not None:
                return self._counted(place, added)
        return None

    def _counted(self, place: int | None, offset: int) -> int | None:
        """Return the first value of a counter and `offset`, if its step is 1."""
        counter = None if place is None else self._counters.get(place)
        return counter.first + offset if counter is not None and counter.step == 1 else None

    def _is_small(self, stacked: Sequence[Value]) -> bool:
        most = self._limit.most
        if most is None or is_expression(most):
            return False
        item = sum(elements(value.static_shape) * value.known_dtype.size for value in stacked)
        return not is_expression(item) and most * item <= MOST_PADDED_BYTES

    def _rewrite(
        self, carried: Sequence[int], captured: Sequence[int], repeated: Sequence[Value], stacked: Sequence[Value]
    ) -> None:
        """Turn the body into that of a core loop. Items that are written again and again are carried, and not read."""
        body, count = self._body, len(self._split.plain)
        number = Value(body.unique_name("iteration"), dtypes.i64, ())
        for place, counter in self._counters.items():
            _count(body, number, body.inputs[place], counter.step)
        given, items = body.inputs[:count], body.inputs[count:]
        again = body.constant(np.array(True), "again") if self._limit.is_whole else body.outputs[-1]
        unread = [Value(body.unique_name("item"), value.dtype, value.shape) for value in repeated]
        after = [body.outputs[self._slots[place] or 0] for place in carried]
        before = [given[place] for place in carried]
        body.outputs = [again, *after, *repeated, *stacked]
        body.inputs = [number, *before, *unread, *items, *(given[place] for place in captured)]

    def _last(self, e: Emitter, place: int, made: Value) -> Value:
        """Return the counter at `place` after the loop, which made `made` iterations."""
        counter, value = self._counters[place], self._values[self._split.plain[place]]
        if self._limit.is_whole:
            return e.sizes(counter.first + counter.step * (self._limit.most or 0), value.known_dtype)
        grown = e.add("mul", e.cast(made, value.known_dtype), e.scalar(counter.step, value))
        return e.add("add", value, grown)


def source(value: Value) -> Value:
    """Return the value that `value` is the same as."""
    while value.producer is not None and value.producer.op == "identity":
        value = value.producer.operand(0)
    return value


def _added(value: Value, given: Value) -> int | None:
    """Return the constant that `value` is more than `given`, if it is."""
    made = source(value).producer
    if made is None or made.op not in ("add", "sub"):
        return None
    left, right = (source(operand) for operand in made.inputs if operand is not None)
    if made.op == "add" and right is given:
        left, right = right, left
    if left is not given or right.data is None or right.data.shape != ():
        return None
    return int(right.data) if made.op == "add" else -int(right.data)


def _least_known(value: Value) -> tuple[list[int], bool]:
    """Return known numbers that `value` is at most, and whether it is the least of them."""
    known = known_sizes(value)
    if known is not None:
        return (list(known), True) if len(known) == 1 else ([], False)
    made = source(value).producer
    if made is None or made.op not in ("min", "cast"):
        return [], False
    found = [_least_known(operand) for operand in made.inputs if operand is not None]
    return [number for numbers, _ in found for number in numbers], all(is_all for _, is_all in found)


def _count(body: Graph, number: Value, counter: Value, step: int) -> None:
    """Let what reads `counter` read its value in the iteration `number`; `counter` stays what it is before the loop."""
    dtype = counter.known_dtype
    nodes: list[Any] = []

    def add(op: str, *inputs: Value, **attrs: Any) -> Value:
        node = body.make(op, inputs, attrs, name="counter")
        node.output.dtype, node.output.shape = dtype, ()
        nodes.append(node)
        return node.output

    grown = number if dtype == dtypes.i64 else add("cast", number, to=dtype)
    if step != 1:
        grown = add("mul", grown, body.constant(np.array(step, dtype.numpy), "step"))
    body.replace_uses(counter, add("add", counter, grown))
    for node in nodes:
        link(node)
    body.nodes[:0] = nodes


def _part(e: Emitter, tensor: Value, first: int, end: int, count: int) -> Value:
    """Return the items of `tensor`, which has `count`, from `first` to `end`."""
    if equals(first, 0) and equals(end, count):
        return tensor
    return e.add("slice", tensor, e.integers([first]), e.integers([end]), e.integers([0]))


def _fits(items: Items, shape: Sequence[int]) -> bool:
    dims = items.dims
    return dims is None or (
        len(dims) == len(shape) and all(dim is None or equals(dim, size) for dim, size in zip(dims, shape, strict=True))
    )


def _old(e: Emitter, items: Items, start: int, stop: int, dims: Sequence[int]) -> Value:
    """Return `items` from `start` to `stop`, of these dimensions; zeros where none was written."""
    if items.tensor is None or not at_least(items.count - stop, 0):
        return e.full([stop - start, *dims], 0, items.dtype)
    return _part(e, items.tensor, start, stop, items.count)


def _filled(e: Emitter, write: Writes, stacked: Value, made: Value, *, padded: bool) -> Value:
    """Return all items of a list after a loop that wrote `stacked`, of which the first `made` are items if `padded`."""
    length, *rest = stacked.static_shape
    first, end, count = write.first, write.first + length, write.count

    def old(start: int, stop: int) -> Value:
        return _old(e, write.items, start, stop, rest)

    if padded:
        written = e.add("lt", e.positions(length, dtypes.i64), made)
        stacked = e.add("where", e.reshape(written, [length, *(1 for _ in rest)]), stacked, old(first, end))
    parts = [stacked]
    if not equals(first, 0):
        parts.insert(0, old(0, first))
    if not equals(end, count):
        parts.append(old(end, count))
    return parts[0] if len(parts) == 1 else e.add("concat", *parts, axis=0)
