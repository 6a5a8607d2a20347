"""Loops over lists of tensors: the loop reads and writes the items, so that each step is one compiled graph of tensors.

A step is split into the items that it reads, what it computes from them, and the items that it writes. The loop reads
the items before the step and writes them after it. This is possible where no step reads an item that it writes itself
and the indices of the items it reads are known before the step: a variable, or the sum of a variable and a constant.
That is so in map_fn, scan and recurrent networks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from treadle.frontends.tensorflow.lists import TensorList, list_array, list_in
from treadle.ops.op import Array

T = TypeVar("T", bound=Hashable)
"""A tensor of the step, as the graph that holds it names it."""

Producer = Callable[[T], "tuple[str, Sequence[T]] | None"]
"""Returns the op that computes a tensor, and its inputs; None for a parameter of the step."""

READS = ("TensorListGetItem", "TensorArrayReadV3")
SIZES = ("TensorListLength", "TensorArraySizeV3")
WRITES = ("TensorListSetItem", "TensorArrayWriteV3")
PUSHES = ("TensorListPushBack",)
IDENTITIES = ("Identity", "StopGradient", "identity")
SIGNS = {"Add": 1, "AddV2": 1, "add": 1, "Sub": -1, "subtract": -1}
"""Ops that add to an index or subtract from it, and the sign of their second operand."""


@dataclass(frozen=True, slots=True)
class ListAccess:
    """One access of a step to a list: parameter `parameter` of the step, at the index in tensor `index` plus `offset`.

    `index` counts the parameters of the step first, then its results. None stands for the end of the list (a push), or
    for its length (a read).
    """

    parameter: int
    index: int | None = None
    resize: bool = False
    offset: int = 0


@dataclass(slots=True)
class SplitStep(Generic[T]):
    """A step without its lists: what it is given, what it computes, and where the results go.

    `lists` says which loop variables are lists. `plain` are the parameters that are tensors; `given` are these tensors,
    followed by the items in `reads`. `wanted` are the results: the next values of the variables `results` (the other
    variables keep their values), then the values and indices of the items in `writes`, each with the slot of its value.
    `changed` are the lists that the step writes.
    """

    lists: list[bool]
    plain: list[int]
    given: list[T]
    wanted: list[T]
    reads: list[ListAccess] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    writes: list[tuple[ListAccess, int]] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)

    def next_slots(self) -> list[int | None]:
        """Return, for each of `plain`, the slot in `wanted` of its next value; None where the value stays the same."""
        slots = {parameter: slot for slot, parameter in enumerate(self.results)}
        return [slots.get(parameter) for parameter in self.plain]


class _UnsplittableError(Exception):
    """The step cannot be split."""


@dataclass(frozen=True, slots=True)
class LoopStep(Generic[T]):
    """A step that computes `results`, the next values of its first parameters, from `parameters`.

    `lists` says which parameters are lists. `producer` returns how a tensor is computed; `dependencies(ends, given)`
    all tensors that `ends` depend on, or None if that is unknown; `resizes` whether a write may lengthen its list;
    `constant` the value of a constant tensor, else None. `extra` are further results.
    """

    parameters: Sequence[T]
    lists: Sequence[bool]
    results: Sequence[T]
    producer: Producer[T]
    dependencies: Callable[[Sequence[T], Sequence[T]], Sequence[T] | None]
    resizes: Callable[[T], bool]
    constant: Callable[[T], Array | None]
    extra: Sequence[T] = ()


@dataclass(frozen=True, slots=True)
class _Write(Generic[T]):
    parameter: int
    index: T | None
    value: T
    resize: bool


def split_step(step: LoopStep[T]) -> SplitStep[T] | None:
    """Split a step from its lists. Returns None if that is impossible."""
    try:
        return _Splitter(step).split()
    except _UnsplittableError:
        return None


class _Splitter(Generic[T]):
    """The splitting of one step, in progress."""

    def __init__(self, step: LoopStep[T]) -> None:
        self._step = step
        self._index_of = {tensor: index for index, tensor in enumerate(step.parameters)}
        plain = [index for index, is_list in enumerate(step.lists) if not is_list]
        given = [step.parameters[index] for index in plain]
        self._split: SplitStep[T] = SplitStep(list(step.lists[: len(step.results)]), plain, given, [])

    def split(self) -> SplitStep[T]:
        """Return the split step. Raises _UnsplittableError."""
        step, split = self._step, self._split
        writes: list[_Write[T]] = []
        for parameter, result in enumerate(step.results):
            if step.lists[parameter]:
                writes += self._writes_of(parameter, result)
            elif self._source(result) != step.parameters[parameter]:
                split.results.append(parameter)
                split.wanted.append(result)
        indices = [write.index for write in writes if write.index is not None]
        ends = [*split.wanted, *(write.value for write in writes), *indices, *step.extra]
        for tensor in dict.fromkeys(self._dependencies(ends, step.parameters)):
            self._hoist_read(tensor)
        for write in writes:
            split.wanted.append(write.value)
            slot = len(split.wanted) - 1
            index = None if write.index is None else self._index_slot(write.index)
            split.writes.append((ListAccess(write.parameter, index, write.resize), slot))
        split.wanted.extend(step.extra)
        if any(
            tensor in self._index_of and step.lists[self._index_of[tensor]]
            for tensor in self._dependencies(split.wanted, split.given)
        ):
            raise _UnsplittableError
        return split

    def _dependencies(self, ends: Sequence[T], given: Sequence[T]) -> Sequence[T]:
        tensors = self._step.dependencies(ends, given)
        if tensors is None:
            raise _UnsplittableError
        return tensors

    def _source(self, tensor: T) -> T:
        """Return the tensor that identity ops forward as `tensor`."""
        while tensor not in self._index_of:
            producer = self._step.producer(tensor)
            if producer is None or producer[0] not in IDENTITIES:
                break
            tensor = producer[1][0]
        return tensor

    def _writes_of(self, parameter: int, result: T) -> list[_Write[T]]:
        """Return the writes that turn a list into its next value, in order."""
        writes: list[_Write[T]] = []
        tensor = self._source(result)
        while tensor not in self._index_of:
            producer = self._step.producer(tensor)
            if producer is None or producer[0] not in (*WRITES, *PUSHES):
                raise _UnsplittableError
            op, inputs = producer
            index, value = (inputs[1], inputs[2]) if op in WRITES else (None, inputs[1])
            writes.append(_Write(parameter, index, value, self._step.resizes(tensor)))
            tensor = self._source(inputs[0])
        if self._index_of[tensor] != parameter:
            raise _UnsplittableError
        if writes:
            self._split.changed.append(parameter)
        return writes[::-1]

    def _hoist_read(self, tensor: T) -> None:
        """If `tensor` is an item of a list or its length, make it a parameter of the split step."""
        producer = self._step.producer(tensor)
        if producer is None or producer[0] not in (*READS, *SIZES):
            return
        op, inputs = producer
        parameter = self._index_of.get(self._source(inputs[0]), -1)
        if parameter < 0 or not self._step.lists[parameter]:
            raise _UnsplittableError
        access = ListAccess(parameter) if op in SIZES else self._indexed_access(parameter, inputs[1])
        self._split.reads.append(access)
        self._split.given.append(tensor)

    def _indexed_access(self, parameter: int, index: T) -> ListAccess:
        """Return the access at an index that is a variable, or the sum of a variable and a constant."""
        variable, offset = self._source(index), 0
        producer = None if variable in self._index_of else self._step.producer(variable)
        if producer is not None and producer[0] in SIGNS:
            left, right = producer[1][:2]
            swapped = SIGNS[producer[0]] > 0 and self._step.constant(left) is not None
            variable, known = (right, self._step.constant(left)) if swapped else (left, self._step.constant(right))
            if known is None or known.ndim or known.dtype.kind not in "iu":
                raise _UnsplittableError
            variable, offset = self._source(variable), SIGNS[producer[0]] * int(known)
        position = self._index_of.get(variable)
        if position is None or self._step.lists[position]:
            raise _UnsplittableError
        return ListAccess(parameter, position, offset=offset)

    def _index_slot(self, index: T) -> int:
        """Return where the index of a write is found; it becomes a result of the step unless it is a parameter."""
        known = self._index_of.get(self._source(index))
        if known is not None:
            return known
        self._split.wanted.append(index)
        return len(self._step.parameters) + len(self._split.wanted) - 1


class ListLoopState:
    """The variables of a loop with a split step: tensors, and lists that only this loop changes."""

    def __init__(self, split: SplitStep[T], arrays: Sequence[Array]) -> None:
        self._split = split
        self.arrays = list(arrays)
        plain = set(split.plain)
        self._lists: dict[int, TensorList] = {
            index: list_in(array) for index, array in enumerate(arrays) if index not in plain
        }
        for index in split.changed:
            self._lists[index] = self._lists[index].copy()

    def plain(self) -> list[Array]:
        """Return the parameters that are tensors."""
        return [self.arrays[index] for index in self._split.plain]

    def operands(self) -> list[Array]:
        """Return the operands of the next step. Raises KernelError for an item that does not exist."""
        arrays, operands = self.arrays, self.plain()
        for access in self._split.reads:
            held = self._lists[access.parameter]
            if access.index is None:
                operands.append(np.array(len(held.items), np.int32))
            else:
                operands.append(held.get(int(arrays[access.index]) + access.offset))
        return operands

    def update(self, results: Sequence[Array]) -> None:
        """Take the results of a step. Raises KernelError for an item that does not fit its list."""
        arrays, count = self.arrays, len(self.arrays)
        for access, slot in self._split.writes:
            held = self._lists[access.parameter]
            if access.index is None:
                held.push(results[slot])
                continue
            index = arrays[access.index] if access.index < count else results[access.index - count]
            held.set(int(index), results[slot], resize=access.resize)
        for slot, parameter in enumerate(self._split.results):
            arrays[parameter] = results[slot]

    def final_arrays(self) -> list[Array]:
        """Return the values of all parameters after the loop, lists as arrays."""
        for index in self._split.changed:
            self.arrays[index] = list_array(self._lists[index])
        return self.arrays
