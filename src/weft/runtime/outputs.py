"""Arrays for the results of runs: fresh ones, in memory of earlier results that nobody refers to any more.

The first write to each page of new memory costs about as much as writing the page ten times: the kernel has to find the
page and clear it. Allocators give memory of this size back as soon as it is freed, so each run would pay again.

Memory comes back when the array that a run returned, all its views, and whatever else holds its buffer are gone: they
refer to one object, which hands the memory over as it dies.
"""

from __future__ import annotations

import ctypes
import itertools
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np

from weft import forking, knobs

Array = np.ndarray[Any, Any]

LEAST_BYTES = 128 << 10
"""A plan with fewer bytes of outputs leaves them to the allocator, which keeps so little memory itself. More of it goes
back to the system even in small pieces, if they are freed together."""

LEAST_PIECE = 32 << 10
"""Smaller outputs are always left to the allocator, which takes less time for one than what is done here."""

_ALIGNMENT = 64


@dataclass(slots=True)
class Shelf:
    """What of the idle memory belongs to one output of a plan: numbers, some of which may be gone."""

    numbers: list[int] = field(default_factory=list)
    is_closed: bool = False


class Recycler:
    """Idle memory of outputs: what came back last is used first, what came back first is dropped first.

    Safe to use from many threads; the child of a fork has copies of its own. `keep` and `clear` are called by finalizers,
    which Python may run within any call, also one made here with the lock held: nothing that is read before a call is
    written after it.
    """

    def __init__(self) -> None:
        self._lock = forking.lock()
        self._idle: OrderedDict[int, Array] = OrderedDict()
        self._numbers = itertools.count()
        self.idle_bytes = 0

    def take(self, shelf: Shelf) -> Array | None:
        """What came back last to `shelf`, which has it no longer; None if there is nothing."""
        with self._lock:
            while shelf.numbers:
                memory = self._idle.pop(shelf.numbers.pop(), None)
                if memory is not None:
                    self.idle_bytes -= memory.nbytes
                    return memory
        return None

    def keep(self, shelf: Shelf, memory: Array, most: int) -> None:
        """Put `memory` on the shelf, and drop what came back first while there are more than `most` bytes in all."""
        with self._lock:
            if shelf.is_closed:
                return
            number = next(self._numbers)
            self._idle[number] = memory
            shelf.numbers.append(number)
            self.idle_bytes += memory.nbytes
            while self.idle_bytes > most:
                dropped = self._idle.popitem(last=False)[1]
                self.idle_bytes -= dropped.nbytes

    def clear(self, shelf: Shelf) -> None:
        """Drop what is on the shelf."""
        while self.take(shelf) is not None:
            pass

    def drop_all(self) -> None:
        """Drop what is on any shelf."""
        with self._lock:
            self._idle, self.idle_bytes = OrderedDict(), 0


RECYCLER = Recycler()


class Output:
    """One output of a plan: makes an array for each run.

    All outputs of a process keep at most WEFT_OUTPUTS_MB of idle memory, which is read when one is made.
    """

    _lent: type[Lent] | None = None

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], total: int) -> None:
        """`total` is how many bytes all outputs of the plan take."""
        self._shape = shape
        self._dtype = dtype
        self._bytes = dtype.itemsize * prod(shape)
        self._shelf = Shelf()
        most = knobs.get("WEFT_OUTPUTS_MB") << 20
        if total >= LEAST_BYTES and LEAST_PIECE <= self._bytes <= most and not dtype.hasobject:
            self._lent = _lent(self._bytes, self._shelf, most)

    @property
    def make(self) -> Callable[[], Array]:
        """Makes an uninitialised contiguous array, in memory that nothing else refers to."""
        return partial(np.empty, self._shape, self._dtype) if self._lent is None else self._recycled

    def _recycled(self) -> Array:
        assert self._lent is not None, "outputs that are left to NumPy are made by it"
        memory = RECYCLER.take(self._shelf)
        if memory is None:
            memory = self._new()
        lent = self._lent.from_buffer(memory.data)
        lent.memory = memory
        return np.ndarray(self._shape, self._dtype, cast(Any, lent))

    def _new(self) -> Array:
        """New memory; where the system has none, once more without what is idle."""
        try:
            return _aligned(self._bytes)
        except MemoryError:
            RECYCLER.drop_all()
        return _aligned(self._bytes)

    def trim(self) -> None:
        """Free the memory that no array uses."""
        RECYCLER.clear(self._shelf)

    def __del__(self) -> None:
        if self._lent is not None:
            self._shelf.is_closed = True
            RECYCLER.clear(self._shelf)


def _aligned(size: int) -> Array:
    """`size` bytes that begin where a line of the cache does."""
    block = np.empty(size + _ALIGNMENT - 1, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + size]


class Lent(ctypes.Array[ctypes.c_ubyte]):
    """What the arrays in one piece of memory refer to, and so lives as long as they do."""

    _type_ = ctypes.c_ubyte
    _length_ = 0
    shelf: Shelf
    most: int
    memory: Array | None = None

    def __del__(self) -> None:
        if self.memory is not None:
            RECYCLER.keep(self.shelf, self.memory, self.most)


def _lent(size: int, shelf: Shelf, most: int) -> type[Lent]:
    return type("Lent", (Lent,), {"_length_": size, "shelf": shelf, "most": most})
