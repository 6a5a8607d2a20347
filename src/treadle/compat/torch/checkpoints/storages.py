"""Storages: the memory of tensors in a checkpoint, several of which may share one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.tensor import Tensor
from treadle.ops.op import Array

TYPED = {
    "FloatStorage": dtypes.float32, "DoubleStorage": dtypes.float64, "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16, "LongStorage": dtypes.int64, "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16, "CharStorage": dtypes.int8, "ByteStorage": dtypes.uint8, "BoolStorage": dtypes.bool_,
}  # fmt: skip
"""The dtype of each class of storages. Those of UntypedStorage are bytes."""

CLASS_OF = {of.name: name for name, of in TYPED.items()}
"""The class of storages of each dtype, by its name."""

MOST_RANK = 64
"""NumPy has no arrays of more axes."""


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A class of storages by its name in `torch`; `dtype` is None where elements are bytes."""

    name: str
    dtype: dtypes.dtype | None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return 1 if self.dtype is None else self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Storage:
    """The bytes of a storage, in memory of its own, and the dtype of its elements."""

    data: Array
    dtype: dtypes.dtype | None

    def tensor(self, of: dtypes.dtype, offset: int, size: Sequence[int], stride: Sequence[int]) -> Tensor:
        """Returns a tensor that shares the storage's memory.

        Args:
            of: The dtype of the elements.
            offset: The first element, counted in elements of `of`.
            size: The lengths of the axes.
            stride: Elements from one place of each axis to the next.

        Raises:
            UnpicklingError: The tensor does not lie within the storage.
        """
        numbers = (offset, *size, *stride)
        if not all(type(number) is int and number >= 0 for number in numbers) or len(size) != len(stride):
            raise corrupt(f"wanted sizes and strides of one rank, none below 0, got {size!r} and {stride!r}")
        if len(size) > MOST_RANK:
            raise corrupt(f"a tensor has {len(size)} axes; at most {MOST_RANK} are possible")
        last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        is_empty = 0 in size
        if not is_empty and (last + 1) * of.itemsize > self.data.nbytes:
            raise corrupt(
                f"a tensor of {of}, offset {offset}, sizes {tuple(size)} and strides {tuple(stride)} does not lie "
                f"within its storage of {self.data.nbytes} bytes"
            )
        if is_empty:
            return Tensor.of(np.empty(tuple(size), of.numpy))
        strides = tuple(step * of.itemsize for step in stride)
        return Tensor.of(np.ndarray(tuple(size), of.numpy, self.data, offset * of.itemsize, strides))


def corrupt(what: str) -> pickle.UnpicklingError:
    """Returns the error for a checkpoint with damaged or hostile contents."""
    return pickle.UnpicklingError(f"Weights only load failed. the checkpoint is corrupt: {what}")


def storage_class(name: str) -> StorageClass:
    """Returns the class of storages with PyTorch's `name`. Raises UnpicklingError for dtypes that treadle lacks."""
    if name == "UntypedStorage":
        return StorageClass(name, None)
    if name not in TYPED:
        raise pickle.UnpicklingError(f"the checkpoint has a torch.{name}, a dtype that treadle does not have")
    return StorageClass(name, TYPED[name])


def class_and_bytes(kind: Any, count: Any, left: int) -> tuple[StorageClass, int]:
    """Returns the class of a storage of `count` elements, and its bytes. Raises UnpicklingError if the file has not got
    so many `left`."""
    if not isinstance(kind, StorageClass) or type(count) is not int:
        raise corrupt(f"wanted the class and the number of elements of a storage, got {kind!r} and {count!r}")
    bytes_ = kind.itemsize * count
    if not 0 <= bytes_ <= left:
        raise corrupt(f"a storage of {bytes_} bytes in a file that has {left} for it")
    return kind, bytes_


class Memory(NamedTuple):
    """The contiguous memory that an array is a view of, as elements of its dtype; its first element there, and its
    strides in elements."""

    elements: Array
    offset: int
    strides: tuple[int, ...]


def memory_of(array: Array) -> Memory:
    """Returns the memory of `array`: that of a copy where it has none that is contiguous, or strides that are no whole
    elements, or below 0."""
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    bytes_in, itemsize = array.ctypes.data - root.ctypes.data, array.itemsize
    fits = root.flags.forc and root.nbytes % itemsize == 0 and bytes_in % itemsize == 0
    if not fits or root.dtype.hasobject or any(step < 0 or step % itemsize for step in array.strides):
        array = np.array(array, order="C")
        root, bytes_in = array, 0
    elements = root.reshape(-1, order="A")
    if elements.dtype != array.dtype:
        elements = elements.view(np.uint8).view(array.dtype)
    return Memory(elements, bytes_in // itemsize, tuple(step // itemsize for step in array.strides))
