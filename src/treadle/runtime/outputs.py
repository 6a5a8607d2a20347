"""Arrays for the results of runs, in memory of earlier results that nobody refers to any more.

The first write to each page of new memory costs about as much as writing the page ten times: the kernel has to find the
page and clear it. Allocators give memory back as it is freed, so each run would pay again. And to make an array takes
longer than to compute a small one, where views of a common piece of memory cost half.

So outputs of one form are laid out in blocks. A block's memory is lent by the native core and comes back when all arrays in it that a
run returned, their views, and whatever else holds their buffers are gone: they refer to one object, whose end gives it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from treadle import _native, knobs

Array = np.ndarray[Any, Any]

LEAST_BYTES = 128 << 10
"""A plan with fewer bytes of outputs leaves them to NumPy: the allocator keeps so little memory itself. More of it goes
back to the system even in small pieces, if they are freed together."""

LEAST_BLOCK = 32 << 10
"""Smaller blocks of few outputs are left to NumPy, which takes less time for them than what is done here."""

MANY = 8
"""So many outputs in a block are cheaper than arrays of their own, however small."""

MOST_BLOCK = 256 << 10
"""Several outputs share a block up to this size,"""

MOST_TOGETHER = 16
"""and so many at most: who keeps one keeps the block."""

_LINE = 64
"""Outputs begin where a line of the cache does."""


class OfForm(Protocol):
    """Shape and NumPy dtype of an output. Equal forms are equal objects, and can be keys."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...


class Block(NamedTuple):
    """The outputs of these numbers, all of one form, in one piece of memory, `pitch` bytes from one to the next."""

    form: OfForm
    numbers: Sequence[int]
    pitch: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.pitch * len(self.numbers)


def in_blocks(forms: Sequence[OfForm]) -> list[Block]:
    """Blocks for the outputs of these forms that can share one, or be lent one: arrays that have bytes, and no objects."""
    alike: dict[OfForm, list[int]] = {}
    for number, form in enumerate(forms):
        if form.shape and 0 not in form.shape and not form.dtype.hasobject:
            alike.setdefault(form, []).append(number)
    blocks = []
    for form, numbers in alike.items():
        pitch = -(-form.dtype.itemsize * prod(form.shape) // _LINE) * _LINE
        count = max(1, min(MOST_TOGETHER, MOST_BLOCK // pitch))
        blocks += [Block(form, numbers[at : at + count], pitch) for at in range(0, len(numbers), count)]
    return blocks


class Outputs:
    """All outputs of a plan.

    Those of a process keep at most TREADLE_OUTPUTS_MB of idle memory, which is read when they are made.
    """

    def __init__(self, forms: Sequence[OfForm]) -> None:
        most = knobs.get("TREADLE_OUTPUTS_MB") << 20
        blocks = in_blocks(forms)
        if sum(block.size for block in blocks) < LEAST_BYTES:
            blocks = []
        lent = [
            block
            for block in blocks
            if block.size <= most and (block.size >= LEAST_BLOCK or len(block.numbers) >= MANY)
        ]
        self._pools = {size: _native.BufferPool(size, most) for size in {block.size for block in lent}}
        self._acquire = [self._pools[block.size].acquire for block in lent]
        self._shapes = [(len(block.numbers), *block.form.shape) for block in lent]
        self._dtypes = [block.form.dtype for block in lent]
        self._starts = [0] * len(lent)
        self._strides = [_strides(block) for block in lent]
        made = [number for block in lent for number in block.numbers]
        fresh = sorted(set(range(len(forms))) - set(made))
        self._empty = [partial(np.empty, forms[number].shape, forms[number].dtype) for number in fresh]
        self._in_order = _sorted_by(made + fresh)
        places = {
            number: (at, row * block.pitch) for at, block in enumerate(lent) for row, number in enumerate(block.numbers)
        }
        places |= {number: (len(lent) + at, 0) for at, number in enumerate(fresh)}
        self.places = [places[number] for number in range(len(forms))]

    @property
    def all_fresh(self) -> bool:
        """Whether each is an array of its own, and so its own buffer."""
        return not self._acquire

    def make(self) -> tuple[list[Array], list[object]]:
        """An uninitialised contiguous array for each output, in memory that nothing else refers to, and the buffers that
        `places` counts from: (which, byte offset) of each output.
        """
        if not self._acquire:
            arrays = [empty() for empty in self._empty]
            return arrays, cast("list[object]", arrays)
        leases: list[Any] = [acquire() for acquire in self._acquire]
        # The rows of one array over a block: NumPy makes those fastest.
        spans: Iterable[Iterable[Array]] = map(
            cast(Any, np.ndarray), self._shapes, self._dtypes, leases, self._starts, self._strides
        )
        arrays = [*chain.from_iterable(spans), *[empty() for empty in self._empty]]
        buffers = [*leases, *arrays[len(arrays) - len(self._empty) :]]
        return arrays if self._in_order is None else list(self._in_order(arrays)), buffers

    def trim(self) -> None:
        """Free the memory that no array uses."""
        for pool in self._pools.values():
            pool.clear()


def _sorted_by(numbers: Sequence[int]) -> Callable[[Sequence[Array]], Iterable[Array]] | None:
    """What puts things that come in the order of these numbers into that of 0, 1, ...; None if they are."""
    if list(numbers) == sorted(numbers):
        return None
    return itemgetter(*sorted(range(len(numbers)), key=numbers.__getitem__))


def _strides(block: Block) -> tuple[int, ...] | None:
    """Those of the array over a block; None if its rows follow each other directly."""
    form = block.form
    if block.pitch == form.dtype.itemsize * prod(form.shape):
        return None
    return (block.pitch, *np.ndarray(form.shape, form.dtype, bytes(block.pitch)).strides)
