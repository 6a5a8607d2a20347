"""Arrays for the outputs of runs, in the memory of earlier outputs that are no longer referenced.

The first write to a page of new memory costs about ten times as much as a later one, because the kernel has to find the
page and clear it. Allocators return freed memory to the system, so each run would pay that again. To allocate a small
array also takes longer than to compute it; a view of a common block costs half.

So outputs of one shape and dtype share blocks. A block's memory belongs to a pool of the native core, which all
bindings of a template share. All arrays of a run in one block refer to one lease, and so do their views; when the last
of them is gone, the lease returns the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np

from treadle import _native, knobs
from treadle.errors import InternalError

Array = np.ndarray[Any, Any]

MIN_BYTES = 128 << 10
"""NumPy allocates the outputs of a plan with fewer bytes: its allocator keeps so little memory for reuse. It returns
more to the system, even small arrays, if they are freed together."""

MIN_BLOCK_BYTES = 32 << 10
"""NumPy allocates the outputs of smaller blocks, unless there are MIN_SHARED of them: that takes less time."""

MIN_SHARED = 8
"""From this number of outputs on, a shared block is cheaper than separate arrays, however small."""

MAX_BLOCK_BYTES = 256 << 10
"""Several outputs share a block of at most this size."""

MAX_SHARED = 16
"""How many outputs may share a block: a caller who keeps one of them keeps the whole block."""

_LINE = 64
"""Bytes of a cache line, at which outputs begin."""


class ArraySpec(NamedTuple):
    """Shape and NumPy dtype of an output, and whether the caller gives its memory."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_given: bool = False


class SizedSpec(NamedTuple):
    """NumPy dtype of an output whose shape a run finds."""

    dtype: np.dtype[Any]


class Block(NamedTuple):
    """Outputs with one spec that share memory: their indices, and the bytes from one to the next."""

    spec: ArraySpec
    indices: Sequence[int]
    pitch: int

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.pitch * len(self.indices)


def blocks_of(specs: Sequence[ArraySpec | SizedSpec]) -> list[Block]:
    """Return blocks for the outputs that can share one: of known shape, with an axis and elements, but no objects, and
    whose memory nobody gives."""
    groups: dict[ArraySpec | SizedSpec, list[int]] = {}
    for index, spec in enumerate(specs):
        groups.setdefault(spec, []).append(index)
    blocks = []
    for spec, indices in groups.items():
        if isinstance(spec, SizedSpec) or spec.is_given:
            continue
        if not spec.shape or 0 in spec.shape or spec.dtype.hasobject:
            continue
        pitch = -(-spec.dtype.itemsize * prod(spec.shape) // _LINE) * _LINE
        count = max(1, min(MAX_SHARED, MAX_BLOCK_BYTES // pitch))
        blocks += [Block(spec, indices[at : at + count], pitch) for at in range(0, len(indices), count)]
    return blocks


class OutputPool:
    """The memory of outputs, which runs use one after another.

    The process keeps at most TREADLE_OUTPUTS_MB of it idle.
    """

    def __init__(self, *, shared: bool) -> None:
        """Make a pool; read TREADLE_OUTPUTS_MB. `shared`: for several plans, whose outputs differ in size."""
        self.limit = knobs.get("TREADLE_OUTPUTS_MB") << 20
        self.native = _native.BufferPool(self.limit, shared)
        self.acquire = self.native.acquire

    @property
    def allocations(self) -> int:
        """How many blocks it has allocated since it was made."""
        return self.native.allocations

    def trim(self) -> None:
        """Free the blocks that no array uses."""
        self.native.clear()


class Outputs:
    """Allocates the outputs of a plan."""

    def __init__(self, specs: Sequence[ArraySpec | SizedSpec], pool: OutputPool) -> None:
        """Let outputs with these `specs` have memory of `pool`."""
        blocks = blocks_of(specs)
        if sum(block.size for block in blocks) < MIN_BYTES:
            blocks = []
        pooled = [
            block
            for block in blocks
            if block.size <= pool.limit and (block.size >= MIN_BLOCK_BYTES or len(block.indices) >= MIN_SHARED)
        ]
        self._acquire = [partial(pool.acquire, block.size) for block in pooled]
        self._shapes = [(len(block.indices), *block.spec.shape) for block in pooled]
        self._dtypes = [block.spec.dtype for block in pooled]
        self._starts = [0] * len(pooled)
        self._strides = [_strides(block) for block in pooled]
        shared = [index for block in pooled for index in block.indices]
        self.given = {
            index: spec.shape for index, spec in enumerate(specs) if isinstance(spec, ArraySpec) and spec.is_given
        }
        """The shapes of the outputs whose memory the caller gives, by index."""
        self._sized = [(index, spec.dtype) for index, spec in enumerate(specs) if isinstance(spec, SizedSpec)]
        separate = sorted(set(range(len(specs))) - set(shared) - self.given.keys())
        self._empty = [_new(specs[index]) for index in separate]
        separate += self.given
        self._in_order = _sorter(shared + separate)
        locations = {
            index: (at, row * block.pitch) for at, block in enumerate(pooled) for row, index in enumerate(block.indices)
        }
        locations |= {index: (len(pooled) + at, 0) for at, index in enumerate(separate)}
        self.locations = [locations[index] for index in range(len(specs))]
        """For each output the index of its buffer and the byte offset there."""
        self.all_separate = not pooled and not self.given and not self._sized
        """True if each output is an array with its own buffer, the caller gives none, and no run makes one."""

    def allocate(self, given: Sequence[Array] = ()) -> tuple[list[Array], list[object]]:
        """Return a contiguous array for each output, and the buffers that `locations` refers to.

        The arrays are those `given`, in the order of their outputs, and uninitialised ones whose memory nothing else
        refers to. Outputs whose shape a run finds are objects of which found() makes arrays.
        """
        if self.all_separate:
            arrays = [empty() for empty in self._empty]
            return arrays, cast("list[object]", arrays)
        leases: list[Any] = [acquire() for acquire in self._acquire]
        # The rows of one array over a block: NumPy makes those fastest.
        blocks: Iterable[Iterable[Array]] = map(
            cast(Any, np.ndarray), self._shapes, self._dtypes, leases, self._starts, self._strides
        )
        separate = [*[empty() for empty in self._empty], *given]
        arrays = [*chain.from_iterable(blocks), *separate]
        buffers = [*leases, *separate]
        return arrays if self._in_order is None else list(self._in_order(arrays)), buffers

    def found(self, outputs: list[Any]) -> list[Array]:
        """Return `outputs`, as allocate() returned them for a run that has ended, with the arrays that the run made."""
        for index, dtype in self._sized:
            taken = outputs[index].take()
            if taken is None:
                raise InternalError(f"a run has not made its output {index}")
            memory, shape = taken
            outputs[index] = np.empty(shape, dtype) if 0 in shape else np.ndarray(shape, dtype, memory)
        return outputs


def _new(spec: ArraySpec | SizedSpec) -> Callable[[], Any]:
    """Return what makes an array of `spec`, or what a run puts its memory into."""
    return _native.SizedMemory if isinstance(spec, SizedSpec) else partial(np.empty, spec.shape, spec.dtype)


def _sorter(indices: Sequence[int]) -> Callable[[Sequence[Array]], Iterable[Array]] | None:
    """Return a function that brings items with these `indices` into the order 0, 1, ...; None if they are in order."""
    if list(indices) == sorted(indices):
        return None
    return itemgetter(*sorted(range(len(indices)), key=indices.__getitem__))


def _strides(block: Block) -> tuple[int, ...] | None:
    """Return the strides of the array over a block, in bytes; None if there is no gap between its outputs."""
    shape, size = block.spec.shape, block.spec.dtype.itemsize
    if block.pitch == size * prod(shape):
        return None
    return (block.pitch, *(size * prod(shape[axis + 1 :]) for axis in range(len(shape))))
