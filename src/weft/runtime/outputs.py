"""Arrays for the results of runs, in memory of earlier results that nobody refers to any more.

The first write to each page of new memory costs about as much as writing the page ten times: the kernel has to find the
page and clear it. Allocators give memory back as it is freed, so each run would pay again. And to make an array takes
longer than to compute a small one, where views of a common piece of memory cost half.

So outputs are laid out in blocks. A block's memory is lent by the native core and comes back when all arrays in it that a
run returned, their views, and whatever else holds their buffers are gone: they refer to one object, whose end gives it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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

FEW = 4
"""So many outputs in one block are cheaper than arrays of their own, however small."""

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


class Maker(Protocol):
    """Makes the arrays of a block for each run."""

    def make(self) -> tuple[Iterable[Array], object]:
        """Uninitialised contiguous arrays, in memory that nothing else refers to, and what has a buffer there."""
        ...

    def trim(self) -> None:
        """Free the memory that no array uses."""
        ...


class Fresh:
    """One array, whose memory NumPy finds and frees."""

    def __init__(self, form: OfForm) -> None:
        self._shape, self._dtype = form.shape, form.dtype

    def make(self) -> tuple[Iterable[Array], object]:
        array = np.empty(self._shape, self._dtype)
        return (array,), array

    def trim(self) -> None:
        pass


class Unlike:
    """Arrays of any shapes and dtypes in lent memory."""

    def __init__(self, block: Block, shelf: _native.Shelf) -> None:
        self._arrays = [(form.shape, form.dtype, at) for form, at in zip(block.forms, block.offsets, strict=True)]
        self._shelf = shelf

    def make(self) -> tuple[Iterable[Array], object]:
        loan = self._shelf.lend()
        return [np.ndarray(shape, dtype, cast(Any, loan), at) for shape, dtype, at in self._arrays], loan

    def trim(self) -> None:
        self._shelf.clear()


class Alike:
    """Arrays of one shape and dtype, the rows of one array in lent memory: NumPy makes those fastest."""

    def __init__(self, block: Block, shelf: _native.Shelf) -> None:
        form = block.forms[0]
        pitch = _pitch(form)
        self._layout: tuple[Any, ...] = ()
        if pitch != form.dtype.itemsize * prod(form.shape):
            self._layout = (0, (pitch, *np.ndarray(form.shape, form.dtype, bytes(pitch)).strides))
        self._shape, self._dtype = (len(block.forms), *form.shape), form.dtype
        self._shelf, self._lend = shelf, shelf.lend

    def make(self) -> tuple[Iterable[Array], object]:
        loan = self._lend()
        return np.ndarray(self._shape, self._dtype, cast(Any, loan), *self._layout), loan

    def trim(self) -> None:
        self._shelf.clear()


class Outputs:
    """All outputs of a plan.

    Those of a process keep at most WEFT_OUTPUTS_MB of idle memory, which is read when they are made.
    """

    def __init__(self, forms: Sequence[OfForm]) -> None:
        most = knobs.get("WEFT_OUTPUTS_MB") << 20
        blocks = in_blocks(forms, most)
        keeps = sum(block.size for block in blocks) >= LEAST_BYTES
        shelves: dict[int, _native.Shelf] = {}
        self._makers: list[Maker] = []
        self.places: list[tuple[int, int]] = []
        for block in blocks:
            worth = block.size >= LEAST_BLOCK or len(block.forms) >= FEW
            if not (keeps and worth and 0 < block.size <= most):
                self.places += [(len(self._makers) + number, 0) for number in range(len(block.forms))]
                self._makers += [Fresh(form) for form in block.forms]
                continue
            self.places += [(len(self._makers), at) for at in block.offsets]
            shelf = shelves.setdefault(block.size, _native.Shelf(block.size, most))
            self._makers.append(Alike(block, shelf) if _are_alike(block) else Unlike(block, shelf))

    def make(self) -> tuple[list[Array], list[object]]:
        """An uninitialised array for each output, and the buffers that `places` counts from: (which, byte offset) of each."""
        arrays: list[Array] = []
        buffers: list[object] = []
        for maker in self._makers:
            made, buffer = maker.make()
            arrays.extend(made)
            buffers.append(buffer)
        return arrays, buffers

    def trim(self) -> None:
        """Free the memory that no array uses."""
        for maker in self._makers:
            maker.trim()


def _are_alike(block: Block) -> bool:
    first = block.forms[0]
    return len(block.forms) > 1 and bool(first.shape) and all(each == first for each in block.forms)
