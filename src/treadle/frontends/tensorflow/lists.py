"""Lists of tensors: the values of TensorList and, in TensorFlow 1, of TensorArray.

In a graph a list is an array of rank 0 whose one element is a TensorList. Its element type is that of text, whose
elements are Python objects. A changed list is a new list, which takes over the storage where only one item changes (see
`list_storage`); the old list keeps its items.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.dtypes import DType
from treadle.errors import KernelError
from treadle.frontends.tensorflow.list_storage import ListStorage
from treadle.ops.op import Array

Dims = Sequence[int | None] | None
"""Sizes, None for an unknown one; None for an unknown rank."""

MOST_ITEMS = 1 << 24
"""The largest length of a list."""


def dims_text(dims: Dims) -> str:
    """Return a shape as error messages spell it."""
    return "<unknown>" if dims is None else f"[{','.join('?' if dim is None else str(dim) for dim in dims)}]"


def merged_dims(a: Dims, b: Dims) -> Dims:
    """Return what two descriptions of one shape say together. Raises KernelError if they contradict each other."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        raise KernelError(f"Incompatible shapes: {dims_text(a)} and {dims_text(b)}")
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def fits(dims: Dims, shape: Sequence[int]) -> bool:
    """Return whether `dims` allow `shape`."""
    return (
        dims is None
        or dims == shape
        or (len(dims) == len(shape) and all(dim in (None, size) for dim, size in zip(dims, shape, strict=True)))
    )


class TensorList:
    """Tensors of one dtype; an item is None until it is written.

    `dims` is what is known of the shape of all items. A list of TensorFlow 1 (`once`) allows one write of each item;
    if it `clears`, a read removes the item. If it `grows`, a write beyond the end lengthens it.
    """

    __slots__ = ("_numpy", "clears", "dims", "dtype", "grows", "infers", "items", "once")

    def __init__(
        self,
        dtype: DType,
        dims: Dims,
        items: list[Array | None] | ListStorage,
        *,
        once: bool = False,
        clears: bool = False,
        grows: bool = False,
        infers: bool = False,
    ) -> None:
        self.dtype = dtype
        self.dims: Dims = None if dims is None else tuple(dims)
        self.items = items if isinstance(items, ListStorage) else ListStorage(items)
        self.once = once
        self.clears = clears
        self.grows = grows
        self.infers = infers
        self._numpy = dtype.numpy

    def copy(self) -> TensorList:
        """Return a copy, which may be changed."""
        return self.of(self.items.copy())

    def derive(self, index: int) -> TensorList:
        """Return a list with the same items for one change: item `index` may be set, appended or removed."""
        return self.of(self.items.derive(index))

    def of(self, items: list[Array | None] | ListStorage) -> TensorList:
        """Return a list with the same properties and other items."""
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
        """Return an item; zeros for one that was never written, if its shape is known.

        If the list `clears`, the item is removed.

        Raises KernelError if there is no such item.
        """
        item = self._item(index, dims)
        if self.clears:
            self.items.clear(index)
        return item

    def _item(self, index: int, dims: Dims = None) -> Array:
        count = len(self.items)
        if not 0 <= index < count:
            raise KernelError(
                f"Tried to read from index {index} but array size is: {count}"
                if self.once
                else f"Trying to access element {index} in a list with {count} elements."
            )
        item = self.items[index]
        if item is None:
            if self.items.is_cleared(index):
                raise KernelError(
                    f"Could not read index {index} twice because it was cleared after a previous read "
                    "(perhaps try setting clear_after_read = false?)"
                )
            return self._zeros(index, dims)
        if dims is not None and not fits(dims, item.shape):
            raise KernelError(f"Incompatible shapes: item {index} is {dims_text(item.shape)}, wanted {dims_text(dims)}")
        return item

    def set(self, index: int, item: Array, *, resize: bool = False) -> None:
        """Write an item. Raises KernelError for an index beyond the end, a wrong shape or dtype, or a second write."""
        self._check_item(item, index)
        count = len(self.items)
        if index >= count and (resize or self.grows) and index < MOST_ITEMS:
            self.items.extend_to(index + 1)
        elif not 0 <= index < count:
            raise KernelError(
                f"Tried to write to index {index} but array is not resizeable and size is: {count}"
                if self.once
                else f"Trying to modify element {index} in a list with {count} elements."
            )
        if self.once and (self.items[index] is not None or self.items.is_cleared(index)):
            raise KernelError(f"Could not write to TensorArray index {index} because it has already been written to.")
        self.items[index] = item
        if self.infers:
            self.dims = merged_dims(self.dims, item.shape)

    def push(self, item: Array) -> None:
        """Append an item. Raises KernelError for a wrong shape or dtype."""
        self._check_item(item, len(self.items))
        if len(self.items) >= MOST_ITEMS:
            raise KernelError(f"a list may have {MOST_ITEMS} elements at most")
        self.items.append(item)

    def stacked_items(self, indices: Sequence[int], dims: Dims = None) -> Array:
        """Return the items at `indices`, stacked. Raises KernelError if one is missing or their shapes differ."""
        dims = merged_dims(self.dims, dims)
        if not len(indices):
            if dims is None or None in dims:
                raise KernelError(
                    f"Tried to stack elements of an empty list with non-fully-defined element_shape: {dims_text(dims)}"
                )
            return np.zeros((0, *dims), self.dtype.numpy)
        if dims is None or None in dims:
            written = next((item for item in self.items.to_list() if item is not None), None)
            known = dims if written is None else written.shape
        else:
            known = dims
        found = [self._item(index, None if self._is_written(index) else known) for index in indices]
        first = found[0].shape
        if any(item.shape != first for item in found):
            position = next(position for position, item in enumerate(found) if item.shape != first)
            raise KernelError(
                "Shapes of all inputs must match: "
                f"values[0].shape = {dims_text(first)} != values[{position}].shape = {dims_text(found[position].shape)}"
            )
        if not fits(dims, first):
            raise KernelError(f"Incompatible shapes: the items are {dims_text(first)}, wanted {dims_text(dims)}")
        result = np.empty((len(found), *first), self.dtype.numpy)
        for position, item in enumerate(found):
            result[position] = item
        return result

    def concatenated(self, dims: Dims = None) -> tuple[Array, Array]:
        """Return all items concatenated along their first axis, and their lengths (i64[n]). Raises KernelError."""
        found = [self._item(index, dims) for index in range(len(self.items))]
        if any(item.ndim == 0 for item in found):
            raise KernelError("Concat requires elements to be at least vectors, found a scalar")
        if not found:
            wanted = merged_dims(self.dims, dims)
            if not wanted or None in wanted[1:]:
                raise KernelError(
                    f"All except the first dimension must be fully defined when concating an empty list: "
                    f"{dims_text(wanted)}"
                )
            rest = tuple(dim for dim in wanted[1:] if dim is not None)
            return np.zeros((0, *rest), self.dtype.numpy), np.zeros(0, np.int64)
        for position, item in enumerate(found):
            if item.shape[1:] != found[0].shape[1:]:
                raise KernelError(
                    f"Concat saw a shape mismatch: {dims_text(found[0].shape)} and, at index {position}, "
                    f"{dims_text(item.shape)}"
                )
        return np.concatenate(found), np.array([len(item) for item in found], np.int64)

    def _is_written(self, index: int) -> bool:
        return 0 <= index < len(self.items) and self.items[index] is not None

    def _zeros(self, index: int, dims: Dims) -> Array:
        known = merged_dims(self.dims, dims)
        if known is None or None in known:
            raise KernelError(
                f"Could not read from index {index}: it was never written, and the shape of its elements is not fully "
                f"defined: {dims_text(known)}; set element_shape, and zeros are returned instead"
            )
        return np.zeros(tuple(dim for dim in known if dim is not None), self.dtype.numpy)

    def _check_item(self, item: Array, index: int) -> None:
        if item.dtype != self._numpy:
            raise KernelError(f"Invalid data types; op elements {item.dtype} but list elements {self._numpy}")
        if not fits(self.dims, item.shape):
            raise KernelError(
                f"Could not write to index {index} because the value shape is {dims_text(item.shape)} which is "
                f"incompatible with the list's element shape: {dims_text(self.dims)} "
                "(consider setting infer_shape=False)"
            )


def list_array(held: TensorList) -> Array:
    """Return a list as an array, for a graph."""
    array = np.empty((), object)
    array[()] = held
    return array


def list_in(array: Array) -> TensorList:
    """Return the list in such an array. Raises KernelError if there is none."""
    found = array[()] if array.dtype == object and array.ndim == 0 else None
    if not isinstance(found, TensorList):
        raise KernelError(f"wanted a list of tensors, got an array of {array.dtype} of shape {dims_text(array.shape)}")
    return found
