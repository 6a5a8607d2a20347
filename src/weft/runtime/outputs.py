"""Arrays for the results of runs, in memory of earlier results that nobody refers to any more.

The first write to each page of new memory costs about as much as writing the page ten times: the kernel has to find the
page and clear it. Allocators give memory back as it is freed, so each run would pay again. And to make an array takes
longer than to compute a small one, where views of a common piece of memory cost half.

So outputs are laid out in blocks. A block's memory is lent by the native core and comes back when all arrays in it that a
run returned, their views, and whatever else holds their buffers are gone: they refer to one object, whose end gives it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Protocol, cast

import numpy as np

from weft import _native, knobs

Array = np.ndarray[Any, Any]

LEAST_BYTES = 128 << 10
"""A plan with fewer bytes of outputs leaves them to NumPy: the allocator keeps so little memory itself. More of it goes
back to the system even in small pieces, if they are freed together."""

LEAST_BLOCK = 32 << 10
"""Smaller blocks of few outputs are left to NumPy, which takes less time for them than what is done here."""

MANY = 8
"""So many outputs of one form in a block are cheaper than arrays of their own, however small."""

MOST_BLOCK = 256 << 10
"""Several outputs share a block up to this size,"""

MOST_HELD = 16
"""and while it is at most so many times as large as the smallest of them: who keeps one keeps the block."""

_LINE = 64
"""Outputs begin where a line of the cache does."""


class OfForm(Protocol):
    """Shape and NumPy dtype of an output."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...


Lend = Callable[[], Any]
"""Shelf.lend, to NumPy, whose types do not know all buffers."""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive outputs in one piece of memory, at these offsets in bytes."""

    forms: Sequence[OfForm]
    offsets: Sequence[int]
    size: int


def in_blocks(forms: Sequence[OfForm], most: int) -> list[Block]:
    """Blocks for outputs of these forms, in their order; `most` is the largest size of one that can be kept."""
    blocks: list[Block] = []
    together: list[OfForm] = []
    size = smallest = 0
    for form in forms:
        pitch = _pitch(form)
        least = min(smallest, pitch) if together else pitch
        if together and (not least or size + pitch > min(MOST_BLOCK, MOST_HELD * least, most)):
            blocks.append(_block(together))
            together, size, least = [], 0, pitch
        together.append(form)
        size, smallest = size + pitch, least
    return [*blocks, _block(together)] if together else blocks


def _pitch(form: OfForm) -> int:
    """The bytes that an output takes in a block; 0 if it has none, or Python objects, and so needs an array of its own."""
    size = 0 if form.dtype.hasobject else form.dtype.itemsize * prod(form.shape)
    return -(-size // _LINE) * _LINE


def _block(forms: Sequence[OfForm]) -> Block:
    pitches = [_pitch(form) for form in forms]
    return Block(list(forms), [sum(pitches[:number]) for number in range(len(forms))], sum(pitches))


Maker = Callable[[], tuple[Iterable[Array], object]]
"""Makes uninitialised contiguous arrays, in memory that nothing else refers to, and says what has a buffer there."""


def _fresh(form: OfForm) -> Maker:
    """One array, whose memory NumPy finds and frees."""
    empty = partial(np.empty, form.shape, form.dtype)

    def make() -> tuple[Iterable[Array], object]:
        array = empty()
        return (array,), array

    return make


def _unlike(block: Block, lend: Lend) -> Maker:
    """Arrays of any shapes and dtypes in lent memory."""
    arrays = [(form.shape, form.dtype, at) for form, at in zip(block.forms, block.offsets, strict=True)]

    def make() -> tuple[Iterable[Array], object]:
        loan = lend()
        return [np.ndarray(shape, dtype, loan, at) for shape, dtype, at in arrays], loan

    return make


def _alike(block: Block, lend: Lend) -> Maker:
    """Arrays of one shape and dtype, the rows of one array in lent memory: NumPy makes those fastest."""
    form = block.forms[0]
    pitch = _pitch(form)
    layout: tuple[Any, ...] = ()
    if pitch != form.dtype.itemsize * prod(form.shape):
        layout = (0, (pitch, *np.ndarray(form.shape, form.dtype, bytes(pitch)).strides))
    shape, dtype = (len(block.forms), *form.shape), form.dtype

    def make() -> tuple[Iterable[Array], object]:
        loan = lend()
        return np.ndarray(shape, dtype, loan, *layout), loan

    return make


class Outputs:
    """All outputs of a plan.

    Those of a process keep at most WEFT_OUTPUTS_MB of idle memory, which is read when they are made.
    """

    def __init__(self, forms: Sequence[OfForm]) -> None:
        most = knobs.get("WEFT_OUTPUTS_MB") << 20
        blocks = in_blocks(forms, most)
        keeps = sum(block.size for block in blocks) >= LEAST_BYTES
        self._shelves: dict[int, _native.Shelf] = {}
        self._makers: list[Maker] = []
        self.places: list[tuple[int, int]] = []
        for block in blocks:
            if not (keeps and block.size <= most and _is_worth_lending(block)):
                self.places += [(len(self._makers) + number, 0) for number in range(len(block.forms))]
                self._makers += map(_fresh, block.forms)
                continue
            self.places += [(len(self._makers), at) for at in block.offsets]
            if block.size not in self._shelves:
                self._shelves[block.size] = _native.Shelf(block.size, most)
            lend = cast(Lend, self._shelves[block.size].lend)
            self._makers.append((_alike if _are_alike(block) else _unlike)(block, lend))
        self._empty = None if self._shelves else [partial(np.empty, form.shape, form.dtype) for form in forms]

    def make(self) -> tuple[list[Array], Sequence[object]]:
        """An uninitialised array for each output, and the buffers that `places` counts from: (which, byte offset) of each."""
        arrays: list[Array] = []
        if self._empty is not None:
            arrays = [empty() for empty in self._empty]
            return arrays, arrays
        buffers: list[object] = []
        for make in self._makers:
            made, buffer = make()
            arrays.extend(made)
            buffers.append(buffer)
        return arrays, buffers

    def trim(self) -> None:
        """Free the memory that no array uses."""
        for shelf in self._shelves.values():
            shelf.clear()


def _is_worth_lending(block: Block) -> bool:
    return block.size >= LEAST_BLOCK or (len(block.forms) >= MANY and _are_alike(block))


def _are_alike(block: Block) -> bool:
    first = block.forms[0]
    return len(block.forms) > 1 and bool(first.shape) and all(each == first for each in block.forms)
