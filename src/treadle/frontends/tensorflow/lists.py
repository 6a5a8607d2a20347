"""Lists of tensors: what TensorFlow's TensorList holds, and its TensorArray of TensorFlow 1.

A list goes through a graph as an array of rank 0 whose one element is a TensorList; its element type is that of text,
the one whose elements are Python objects. A changed list is a new one, which takes the items over where one of them is changed
(`items`); the old one stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import DType
from treadle.errors import KernelError
from treadle.frontends.tensorflow.items import Items
from treadle.ops.op import Array

Dims = Sequence[int | None] | None
"""Sizes, None for an unknown one; None for an unknown rank."""

MOST_ITEMS = 1 << 24
"""The longest list."""


def shown(dims: Dims) -> str:
    """A shape as messages have it."""
    return "<unknown>" if dims is None else f"[{','.join('?' if dim is None else str(dim) for dim in dims)}]"


def agreed(a: Dims, b: Dims) -> Dims:
    """What is known of a shape that is both. Raises KernelError if none can be."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        raise KernelError(f"Incompatible shapes: {shown(a)} and {shown(b)}")
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def fits(dims: Dims, shape: Sequence[int]) -> bool:
    """Whether `shape` is one that `dims` allows."""
    return (
        dims is None
        or dims == shape
        or (len(dims) == len(shape) and all(dim in (None, size) for dim, size in zip(dims, shape, strict=True)))
    )


class TensorList:
    """Tensors of one dtype; an item is None until it is written.

    `dims` is what is known of the shape of every item. A list of TensorFlow 1 (`once`) takes one write to each place; its
    items are gone when read if it `clears`. Writes behind the end make it longer if it `grows`.
    """

    __slots__ = ("_numpy", "clears", "dims", "dtype", "grows", "infers", "items", "once")

    def __init__(
        self,
        dtype: DType,
        dims: Dims,
        items: list[Array | None] | Items,
        *,
        once: bool = False,
        clears: bool = False,
        grows: bool = False,
        infers: bool = False,
    ) -> None:
        self.dtype = dtype
        self.dims: Dims = None if dims is None else tuple(dims)
        self.items = items if isinstance(items, Items) else Items(items)
        self.once = once
        self.clears = clears
        self.grows = grows
        self.infers = infers
        self._numpy = dtype.numpy

    def copy(self) -> TensorList:
        """A list of the same items, which may be changed."""
        return self.of(self.items.copy())

    def handed_on(self, index: int) -> TensorList:
        """A list of the same items, of which that at `index` alone may be changed, once, added or dropped."""
        return self.of(self.items.handed_on(index))

    def of(self, items: list[Array | None] | Items) -> TensorList:
        """A list like this of other items."""
        return TensorList(
            self.dtype,
            self.dims,
            items,
            once=self.once,
            clears=self.clears,
            grows=self.grows,
            infers=self.infers,
        )

    def get(self, index: int, dims: Dims = None) -> Array:
        """An item, which is gone then if the list `clears`; zeros for one that was never written, if its shape is known.

        Raises KernelError if there is none.
        """
        item = self._at(index, dims)
        if self.clears:
            self.items.take(index)
        return item

    def _at(self, index: int, dims: Dims = None) -> Array:
        count = len(self.items)
        if not 0 <= index < count:
            raise KernelError(
                f"Tried to read from index {index} but array size is: {count}"
                if self.once
                else f"Trying to access element {index} in a list with {count} elements."
            )
        item = self.items[index]
        if item is None:
            if self.items.is_gone(index):
                raise KernelError(
                    f"Could not read index {index} twice because it was cleared after a previous read "
                    "(perhaps try setting clear_after_read = false?)"
                )
            return self._zeros(index, dims)
        if dims is not None and not fits(dims, item.shape):
            raise KernelError(f"Incompatible shapes: item {index} is {shown(item.shape)}, wanted {shown(dims)}")
        return item

    def set(self, index: int, item: Array, *, resize: bool = False) -> None:
        """Write an item. Raises KernelError for an index behind the end, a shape or dtype that does not fit, a second write."""
        self._must_take(item, index)
        count = len(self.items)
        if index >= count and (resize or self.grows) and index < MOST_ITEMS:
            self.items.lengthen(index + 1)
        elif not 0 <= index < count:
            raise KernelError(
                f"Tried to write to index {index} but array is not resizeable and size is: {count}"
                if self.once
                else f"Trying to modify element {index} in a list with {count} elements."
            )
        if self.once and (self.items[index] is not None or self.items.is_gone(index)):
            raise KernelError(f"Could not write to TensorArray index {index} because it has already been written to.")
        self.items[index] = item
        if self.infers:
            self.dims = agreed(self.dims, item.shape)

    def push(self, item: Array) -> None:
        """Write an item behind the last one. Raises KernelError for a shape or dtype that does not fit."""
        self._must_take(item, len(self.items))
        if len(self.items) >= MOST_ITEMS:
            raise KernelError(f"a list may have {MOST_ITEMS} elements at most")
        self.items.append(item)

    def gathered(self, indices: Sequence[int], dims: Dims = None) -> Array:
        """The items at `indices`, stacked. Raises KernelError if one is missing or their shapes differ."""
        dims = agreed(self.dims, dims)
        if not len(indices):
            if dims is None or None in dims:
                raise KernelError(
                    f"Tried to stack elements of an empty list with non-fully-defined element_shape: {shown(dims)}"
                )
            return np.zeros((0, *dims), self.dtype.numpy)
        if dims is None or None in dims:
            written = next((item for item in self.items.listed() if item is not None), None)
            known = dims if written is None else written.shape
        else:
            known = dims
        found = [self._at(index, None if self._has(index) else known) for index in indices]
        first = found[0].shape
        if any(item.shape != first for item in found):
            place = next(place for place, item in enumerate(found) if item.shape != first)
            raise KernelError(
                "Shapes of all inputs must match: "
                f"values[0].shape = {shown(first)} != values[{place}].shape = {shown(found[place].shape)}"
            )
        if not fits(dims, first):
            raise KernelError(f"Incompatible shapes: the items are {shown(first)}, wanted {shown(dims)}")
        result = np.empty((len(found), *first), self.dtype.numpy)
        for place, item in enumerate(found):
            result[place] = item
        return result

    def joined(self, dims: Dims = None) -> tuple[Array, Array]:
        """All items one behind the other along their first axis, and how long each is (i64[n]). Raises KernelError."""
        found = [self._at(index, dims) for index in range(len(self.items))]
        if any(item.ndim == 0 for item in found):
            raise KernelError("Concat requires elements to be at least vectors, found a scalar")
        if not found:
            wanted = agreed(self.dims, dims)
            if not wanted or None in wanted[1:]:
                raise KernelError(
                    f"All except the first dimension must be fully defined when concating an empty list: {shown(wanted)}"
                )
            rest = tuple(dim for dim in wanted[1:] if dim is not None)
            return np.zeros((0, *rest), self.dtype.numpy), np.zeros(0, np.int64)
        for place, item in enumerate(found):
            if item.shape[1:] != found[0].shape[1:]:
                raise KernelError(
                    f"Concat saw a shape mismatch: {shown(found[0].shape)} and, at index {place}, {shown(item.shape)}"
                )
        return np.concatenate(found), np.array([len(item) for item in found], np.int64)

    def _has(self, index: int) -> bool:
        return 0 <= index < len(self.items) and self.items[index] is not None

    def _zeros(self, index: int, dims: Dims) -> Array:
        known = agreed(self.dims, dims)
        if known is None or None in known:
            raise KernelError(
                f"Could not read from index {index}: it was never written, and the shape of its elements is not fully "
                f"defined: {shown(known)}; set element_shape, and zeros are returned instead"
            )
        return np.zeros(tuple(dim for dim in known if dim is not None), self.dtype.numpy)

    def _must_take(self, item: Array, index: int) -> None:
        if item.dtype != self._numpy:
            raise KernelError(f"Invalid data types; op elements {item.dtype} but list elements {self._numpy}")
        if not fits(self.dims, item.shape):
            raise KernelError(
                f"Could not write to index {index} because the value shape is {shown(item.shape)} which is incompatible "
                f"with the list's element shape: {shown(self.dims)} (consider setting infer_shape=False)"
            )


def wrapped(held: TensorList) -> Array:
    """A list as an array that goes through a graph."""
    array = np.empty((), object)
    array[()] = held
    return array


def held_in(array: Array) -> TensorList:
    """The list that such an array holds. Raises KernelError if it holds none."""
    found = array[()] if array.dtype == object and array.ndim == 0 else None
    if not isinstance(found, TensorList):
        raise KernelError(f"wanted a list of tensors, got an array of {array.dtype} of shape {shown(array.shape)}")
    return found
