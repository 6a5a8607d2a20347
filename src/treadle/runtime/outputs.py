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
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from treadle import _native, knobs
from treadle.errors import InternalError
from treadle.graph.shape import StaticShape

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
    """Outputs with one spec that share memory: their indices, the bytes from one to the next, and those of all."""

    spec: ArraySpec
    indices: Sequence[int]
    pitch: int
    size: int


class OutputSpec(Protocol):
    """What is known of an output without its sizes: `shape` may say what these are by other numbers."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def is_given(self) -> bool: ...


class Arrangement(NamedTuple):
    """Where the outputs are if some of them share blocks.

    Attributes:
        separate: The outputs that are arrays of their own, without those that the caller gives.
        in_order: Brings the arrays of blocks, the separate and the given ones into the order of the outputs; None if
            they are.
        places: For each output the number of its buffer, and which output of that it is.
    """

    separate: Sequence[int]
    in_order: Callable[[Sequence[Array]], Iterable[Array]] | None
    places: Sequence[tuple[int, int]]


class OutputForm:
    """What all bindings of a plan know of its outputs. Threads may share it."""

    def __init__(self, specs: Sequence[OutputSpec | SizedSpec]) -> None:
        """Take the outputs with these `specs`."""
        self.dtypes = [spec.dtype for spec in specs]
        self.ranks = [None if isinstance(spec, SizedSpec) else len(spec.shape) for spec in specs]
        """The rank of each output; None if a run finds its shape."""
        self.sized = [(index, spec.dtype) for index, spec in enumerate(specs) if isinstance(spec, SizedSpec)]
        """The outputs whose shapes a run finds, with their dtypes."""
        self.given = [index for index, spec in enumerate(specs) if not isinstance(spec, SizedSpec) and spec.is_given]
        """The outputs whose memory the caller gives."""
        equal: dict[OutputSpec | SizedSpec, list[int]] = {}
        for index, spec in enumerate(specs):
            equal.setdefault(spec, []).append(index)
        self._groups = [
            tuple(indices)
            for spec, indices in equal.items()
            if not (isinstance(spec, SizedSpec) or spec.is_given or not spec.shape or spec.dtype.hasobject)
        ]
        self._arrangements: dict[tuple[Sequence[int], ...], Arrangement] = {}
        self.is_single = self._groups == [(0,)] and len(specs) == 1
        """True if the only output is one that may have a block."""

    def blocks(self, shapes: Sequence[StaticShape | None]) -> list[Block]:
        """Return blocks for the outputs that can share one: of known shape, with an axis and elements, but no objects,
        and whose memory nobody gives."""
        blocks = []
        for indices in self._groups:
            shape, dtype = shapes[indices[0]], self.dtypes[indices[0]]
            assert shape is not None, "a run finds it"
            size = dtype.itemsize * prod(shape)
            if size == 0:
                continue
            pitch = _padded(size)
            spec = ArraySpec(shape, dtype)
            if len(indices) == 1:
                blocks.append(Block(spec, indices, pitch, pitch))
                continue
            count = max(1, min(MAX_SHARED, MAX_BLOCK_BYTES // pitch))
            for at in range(0, len(indices), count):
                part = indices[at : at + count]
                blocks.append(Block(spec, part, pitch, pitch * len(part)))
        return blocks

    def arrange(self, blocks: Sequence[Block]) -> Arrangement:
        """Return where the outputs are if those of `blocks` share them and all others do not."""
        key = tuple([block.indices for block in blocks])
        found = self._arrangements.get(key)
        if found is None:
            shared = [index for indices in key for index in indices]
            separate = sorted(set(range(len(self.dtypes))) - set(shared) - set(self.given))
            alone = [*separate, *self.given]
            places = {index: (at, row) for at, indices in enumerate(key) for row, index in enumerate(indices)}
            places |= {index: (len(key) + at, 0) for at, index in enumerate(alone)}
            in_order = [places[index] for index in range(len(self.dtypes))]
            found = self._arrangements[key] = Arrangement(separate, _sorter(shared + alone), in_order)
        return found


def blocks_of(specs: Sequence[ArraySpec | SizedSpec]) -> list[Block]:
    """Return the blocks of outputs with these `specs`."""
    return OutputForm(specs).blocks([None if isinstance(spec, SizedSpec) else spec.shape for spec in specs])


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

    def __init__(self, form: OutputForm, shapes: Sequence[StaticShape | None], pool: OutputPool) -> None:
        """Let outputs of `form` with these `shapes` (None: a run finds it) have memory of `pool`."""
        self._form = form
        self._pool = pool
        self._acquire: list[Callable[[], Any]] = []
        self._shapes: list[StaticShape] = []
        self._dtypes: list[np.dtype[Any]] = []
        self._starts: list[int] = []
        self._strides: list[tuple[int, ...] | None] = []
        blocks = form.blocks(shapes)
        pooled = []
        if sum([block.size for block in blocks]) >= MIN_BYTES:
            pooled = [
                block
                for block in blocks
                if block.size <= pool.limit and (block.size >= MIN_BLOCK_BYTES or len(block.indices) >= MIN_SHARED)
            ]
        self._single = (pooled[0].size, pooled[0].spec.shape) if form.is_single and pooled else None
        """If the only output has a block: the bytes of that, and the shape."""
        for block in () if self._single is not None else pooled:
            self._acquire.append(partial(pool.acquire, block.size))
            self._shapes.append((len(block.indices), *block.spec.shape))
            self._dtypes.append(block.spec.dtype)
            self._starts.append(0)
            self._strides.append(_strides(block))
        pitches = [block.pitch for block in pooled]
        arranged = form.arrange(pooled)
        self._in_order = arranged.in_order
        self._empty = [_new(shapes[index], form.dtypes[index]) for index in arranged.separate]
        self.given = {index: shapes[index] or () for index in form.given}
        """The shapes of the outputs whose memory the caller gives, by index."""
        self._sized = form.sized
        self.locations = [(at, row * pitches[at] if row else 0) for at, row in arranged.places]
        """For each output the index of its buffer and the byte offset there."""
        self.all_separate = not pooled and not form.given and not form.sized
        """True if each output is an array with its own buffer, the caller gives none, and no run makes one."""
        self.bound = [] if self.all_separate else self.locations
        """The same as a native template takes it: nothing if each output has its own buffer."""

    def resize(self, shapes: Sequence[StaticShape | None]) -> bool:
        """Allocate for these `shapes` from now on; False, and nothing changes, if that takes another arrangement.

        It is True for a single output that has a block before and after, or neither. That is the fast case: a run of
        new sizes waits for it, and what it uses has left the caches.
        """
        form = self._form
        if not form.is_single:
            return False
        (shape,) = shapes
        assert shape is not None, "no run finds it"
        dtype = form.dtypes[0]
        size = _padded(dtype.itemsize * prod(shape))
        if (MIN_BYTES <= size <= self._pool.limit) != (self._single is not None):
            return False
        if self._single is not None:
            self._single = size, shape
        else:
            self._empty[0] = _new(shape, dtype)
        return True

    def allocate(self, given: Sequence[Array] = ()) -> tuple[list[Array], list[object]]:
        """Return a contiguous array for each output, and the buffers that `locations` refers to.

        The arrays are those `given`, in the order of their outputs, and uninitialised ones whose memory nothing else
        refers to. Outputs whose shape a run finds are objects of which found() makes arrays.
        """
        if self.all_separate:
            arrays = [empty() for empty in self._empty]
            return arrays, cast("list[object]", arrays)
        if self._single is not None:
            size, shape = self._single
            lease = self._pool.acquire(size)
            return [np.ndarray(shape, self._form.dtypes[0], cast(Any, lease))], [lease]
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


def _padded(size: int) -> int:
    """Return the bytes of whole cache lines that hold `size` bytes."""
    return -(-size // _LINE) * _LINE


def _new(shape: StaticShape | None, dtype: np.dtype[Any]) -> Callable[[], Any]:
    """Return what makes an array, or what a run puts the memory of one into whose shape it finds."""
    return _native.SizedMemory if shape is None else partial(np.empty, shape, dtype)


def _sorter(indices: Sequence[int]) -> Callable[[Sequence[Array]], Iterable[Array]] | None:
    """Return a function that brings items with these `indices` into the order 0, 1, ...; None if they are in order."""
    if list(indices) == sorted(indices):
        return None
    return itemgetter(*sorted(range(len(indices)), key=indices.__getitem__))


def _strides(block: Block) -> tuple[int, ...] | None:
    """Return the strides of the array over a block, in bytes; None if there is no gap between its outputs."""
    shape, size = block.spec.shape, block.spec.dtype.itemsize
    if block.pitch == block.size or block.pitch == size * prod(shape):
        return None
    return (block.pitch, *(size * prod(shape[axis + 1 :]) for axis in range(len(shape))))
