"""Loops over lists: a step that reads and writes items of its lists, taken apart into the items and what is computed of them.

What is left of the step has tensors alone, and is compiled as a whole; the loop itself reads the items before the step and
writes what the step made. It works where no item is read in the step that writes it, and the numbers of those read are known
before the step (a variable, or one and a constant), as map_fn, scan and recurrent networks have it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from treadle.frontends.tensorflow.lists import TensorList, held_in, wrapped
from treadle.ops.op import Array

T = TypeVar("T", bound=Hashable)
"""A tensor of the step: however the graph at hand names it."""

Reader = Callable[[T], "tuple[str, Sequence[T]] | None"]
"""The op that gives a tensor, and what it reads; None for a tensor that is given to the step."""

READS = ("TensorListGetItem", "TensorArrayReadV3")
SIZES = ("TensorListLength", "TensorArraySizeV3")
WRITES = ("TensorListSetItem", "TensorArrayWriteV3")
PUSHES = ("TensorListPushBack",)
_SAME = ("Identity", "StopGradient", "identity")
_SIGNS = {"Add": 1, "AddV2": 1, "add": 1, "Sub": -1, "subtract": -1}
"""What becomes of the second operand."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item that a step reads or writes: of which of its lists, and where its number is (None: behind the end, or a size),
    to which `offset` is added.

    Where numbers are is counted through what is given to the step, then through what it computes.
    """

    place: int
    index: int | None = None
    resize: bool = False
    offset: int = 0


@dataclass(slots=True)
class Peeled(Generic[T]):
    """How to run a step: what it is given, what it computes, and what becomes of it.

    `lists` says which variables are lists, `plain` are the places of tensors among what is given, `given` these tensors followed by the items; `wanted` what is
    computed: the next values of the variables `results` (the others stay as they are), then values and numbers of the items written.
    """

    lists: list[bool]
    plain: list[int]
    given: list[T]
    wanted: list[T]
    reads: list[Item] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    writes: list[tuple[Item, int]] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)

    def follows(self) -> list[int | None]:
        """For each of `plain`, which of `wanted` is its next value; None where it stays as it is."""
        slots = {place: slot for slot, place in enumerate(self.results)}
        return [slots.get(place) for place in self.plain]


class _WholeError(Exception):
    """The step cannot be taken apart."""


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """A step from `parameters`, of which some are `lists`, to `results`, the next values of the first of them.

    `reader` tells what makes a tensor, `resizes` whether a write may make its list longer, `constant` what a tensor
    always is, if that is known; `needed` gives every tensor that some depend on if others are given, None if it cannot tell.
    """

    parameters: Sequence[T]
    lists: Sequence[bool]
    results: Sequence[T]
    reader: Reader[T]
    needed: Callable[[Sequence[T], Sequence[T]], Sequence[T] | None]
    resizes: Callable[[T], bool]
    constant: Callable[[T], Array | None]
    extra: Sequence[T] = ()
    """What is computed besides, behind everything else."""


@dataclass(frozen=True, slots=True)
class _Write(Generic[T]):
    place: int
    index: T | None
    value: T
    resize: bool


def peeled(step: Step[T]) -> Peeled[T] | None:
    """The step, taken apart; None where that cannot be done."""
    try:
        return _Taking(step).parts()
    except _WholeError:
        return None


class _Taking(Generic[T]):
    """A step while it is taken apart."""

    def __init__(self, step: Step[T]) -> None:
        self._step = step
        self._at = {parameter: place for place, parameter in enumerate(step.parameters)}
        plain = [place for place, is_list in enumerate(step.lists) if not is_list]
        given = [step.parameters[place] for place in plain]
        self._found: Peeled[T] = Peeled(list(step.lists[: len(step.results)]), plain, given, [])

    def parts(self) -> Peeled[T]:
        """The parts. Raises _WholeError."""
        step, found = self._step, self._found
        writes: list[_Write[T]] = []
        for place, result in enumerate(step.results):
            if step.lists[place]:
                writes += self._chain(place, result)
            elif self._source(result) != step.parameters[place]:
                found.results.append(place)
                found.wanted.append(result)
        numbers = [write.index for write in writes if write.index is not None]
        ends = [*found.wanted, *(write.value for write in writes), *numbers, *step.extra]
        for tensor in dict.fromkeys(self._needed(ends, step.parameters)):
            self._read(tensor)
        for write in writes:
            found.wanted.append(write.value)
            slot = len(found.wanted) - 1
            index = None if write.index is None else self._number(write.index)
            found.writes.append((Item(write.place, index, write.resize), slot))
        found.wanted.extend(step.extra)
        if any(
            tensor in self._at and step.lists[self._at[tensor]] for tensor in self._needed(found.wanted, found.given)
        ):
            raise _WholeError
        return found

    def _needed(self, ends: Sequence[T], given: Sequence[T]) -> Sequence[T]:
        found = self._step.needed(ends, given)
        if found is None:
            raise _WholeError
        return found

    def _source(self, tensor: T) -> T:
        """What `tensor` is, behind ops that pass it as it is."""
        while tensor not in self._at:
            made = self._step.reader(tensor)
            if made is None or made[0] not in _SAME:
                break
            tensor = made[1][0]
        return tensor

    def _chain(self, place: int, result: T) -> list[_Write[T]]:
        """The writes that make the next value of a list of its value, in order."""
        found: list[_Write[T]] = []
        tensor = self._source(result)
        while tensor not in self._at:
            made = self._step.reader(tensor)
            if made is None or made[0] not in (*WRITES, *PUSHES):
                raise _WholeError
            op, inputs = made
            index, value = (inputs[1], inputs[2]) if op in WRITES else (None, inputs[1])
            found.append(_Write(place, index, value, self._step.resizes(tensor)))
            tensor = self._source(inputs[0])
        if self._at[tensor] != place:
            raise _WholeError
        if found:
            self._found.changed.append(place)
        return found[::-1]

    def _read(self, tensor: T) -> None:
        """If `tensor` is an item of a list, or its size, let the step be given it."""
        made = self._step.reader(tensor)
        if made is None or made[0] not in (*READS, *SIZES):
            return
        op, inputs = made
        held = self._at.get(self._source(inputs[0]), -1)
        if held < 0 or not self._step.lists[held]:
            raise _WholeError
        item = Item(held) if op in SIZES else self._at_sum(held, inputs[1])
        self._found.reads.append(item)
        self._found.given.append(tensor)

    def _at_sum(self, held: int, number: T) -> Item:
        """The item of a list whose number is a variable, or the sum of one and a constant. Raises _WholeError for others."""
        variable, offset = self._source(number), 0
        made = None if variable in self._at else self._step.reader(variable)
        if made is not None and made[0] in _SIGNS:
            left, right = made[1][:2]
            swapped = _SIGNS[made[0]] > 0 and self._step.constant(left) is not None
            variable, known = (right, self._step.constant(left)) if swapped else (left, self._step.constant(right))
            if known is None or known.ndim or known.dtype.kind not in "iu":
                raise _WholeError
            variable, offset = self._source(variable), _SIGNS[made[0]] * int(known)
        place = self._at.get(variable)
        if place is None or self._step.lists[place]:
            raise _WholeError
        return Item(held, place, offset=offset)

    def _number(self, index: T) -> int:
        """Where the number of an item is, computed if it must be."""
        known = self._at.get(self._source(index))
        if known is not None:
            return known
        self._found.wanted.append(index)
        return len(self._step.parameters) + len(self._found.wanted) - 1


class State:
    """What a peeled step works on: lists that only this loop changes, and tensors."""

    def __init__(self, parts: Peeled[T], arrays: Sequence[Array]) -> None:
        self._parts = parts
        self.arrays = list(arrays)
        plain = set(parts.plain)
        self._lists: dict[int, TensorList] = {
            place: held_in(array) for place, array in enumerate(arrays) if place not in plain
        }
        for place in parts.changed:
            self._lists[place] = self._lists[place].copy()

    def plain(self) -> list[Array]:
        """The tensors among the variables and what stays the same."""
        return [self.arrays[place] for place in self._parts.plain]

    def operands(self) -> list[Array]:
        """What the next step is given. Raises KernelError for an item that is not there."""
        arrays, found = self.arrays, self.plain()
        for item in self._parts.reads:
            held = self._lists[item.place]
            if item.index is None:
                found.append(np.array(len(held.items), np.int32))
            else:
                found.append(held.get(int(arrays[item.index]) + item.offset))
        return found

    def take(self, made: Sequence[Array]) -> None:
        """Go on with what a step made. Raises KernelError for an item that does not fit its list."""
        arrays, count = self.arrays, len(self.arrays)
        for item, slot in self._parts.writes:
            held = self._lists[item.place]
            if item.index is None:
                held.push(made[slot])
                continue
            number = arrays[item.index] if item.index < count else made[item.index - count]
            held.set(int(number), made[slot], resize=item.resize)
        for slot, place in enumerate(self._parts.results):
            arrays[place] = made[slot]

    def ended(self) -> list[Array]:
        """All that is left behind the loop, lists as arrays."""
        for place in self._parts.changed:
            self.arrays[place] = wrapped(self._lists[place])
        return self.arrays
