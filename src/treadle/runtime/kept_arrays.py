"""What a state keeps of one input from run to run: an array that every run replaces, one that grows, or a stack of
those."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.graph.shape import StaticShape

Array = np.ndarray[Any, Any]

_LEAST_ROWS = 64
"""Rows for which a growing array has room at first."""


class Carried:
    """An array that every run replaces."""

    def __init__(self) -> None:
        self.array: Array = np.empty(0)

    def start(self, shape: StaticShape, dtype: np.dtype[Any] | None) -> None:
        """Keep zeros."""
        self.array = np.zeros(shape, dtype)

    def keep(self, result: Array) -> None:
        """Keep the result of a run."""
        self.array = result

    def load(self, array: Array) -> None:
        """Keep a copy of `array`."""
        self.array = array.copy()

    def copy(self) -> Array:
        """Return a copy in the model's form."""
        return self.array.copy()

    def drop(self) -> None:
        """Free the memory."""
        self.array = np.empty(0)


class Rows:
    """An array that grows along `axis`: the first rows of a buffer that has room for more.

    A row has all elements at one place of the axis.
    """

    def __init__(self, axis: int, rank: int) -> None:
        self._perm = (axis, *(other for other in range(rank) if other != axis))
        self._back = tuple(np.argsort(self._perm))
        self._buffer: Array = np.empty((0,) * rank)
        self._rows = 0
        self._given: Array | None = None

    @property
    def array(self) -> Array:
        """The rows, axis first."""
        return self._buffer[: self._rows]

    def start(self, shape: StaticShape, dtype: np.dtype[Any] | None) -> None:
        """Keep no rows of an array of `shape`; the buffer stays if it fits."""
        row = tuple(shape[axis] for axis in self._perm[1:])
        if self._buffer.shape[1:] != row or self._buffer.dtype != dtype:
            self._buffer = np.empty((0, *row), dtype)
        self._rows = 0

    def room(self, shape: StaticShape) -> Array:
        """Return the first rows of the buffer, as many as `shape` has; those kept are among them."""
        if shape[0] > len(self._buffer):
            rows = max(shape[0], 2 * len(self._buffer), _LEAST_ROWS)
            grown = np.empty((rows, *shape[1:]), self._buffer.dtype)
            grown[: self._rows] = self.array
            self._buffer = grown
        self._given = self._buffer[: shape[0]]
        return self._given

    def keep(self, result: Array) -> None:
        """Keep the result of a run, which is in memory of room() or holds all rows."""
        if result is not self._given:
            self._buffer = result
        self._rows, self._given = len(result), None

    def load(self, array: Array) -> None:
        """Keep a copy of `array`."""
        self._buffer = np.array(array.transpose(self._perm), order="C")
        self._rows = len(self._buffer)

    def copy(self) -> Array:
        """Return a copy in the model's form."""
        return np.array(self.array.transpose(self._back), order="C")

    def drop(self) -> None:
        """Free the memory."""
        self._buffer, self._rows = np.empty((0,) * len(self._perm)), 0


class Stack:
    """Arrays that grow, one for each part of an array that stacks them along `axes`, of `sizes`."""

    def __init__(self, axes: Sequence[int], sizes: Sequence[int], axis: int, rank: int) -> None:
        self._axes = tuple(axes)
        self._sizes = tuple(sizes)
        inner = axis - sum(stacked < axis for stacked in axes)
        self.parts = tuple(Rows(inner, rank - len(self._axes)) for _ in range(math.prod(sizes)))

    def start(self, shape: StaticShape, dtype: np.dtype[Any] | None) -> None:
        """Keep no rows of an array of `shape`."""
        own = tuple(size for axis, size in enumerate(shape) if axis not in self._axes)
        for part in self.parts:
            part.start(own, dtype)

    def load(self, array: Array) -> None:
        """Keep a copy of `array`."""
        first = np.moveaxis(array, self._axes, range(len(self._axes)))
        for part, index in zip(self.parts, np.ndindex(self._sizes), strict=True):
            part.load(first[index])

    def copy(self) -> Array:
        """Return a copy in the model's form."""
        whole = np.stack([part.copy() for part in self.parts])
        whole = whole.reshape(*self._sizes, *whole.shape[1:])
        return np.array(np.moveaxis(whole, range(len(self._axes)), self._axes), order="C")

    def drop(self) -> None:
        """Free the memory."""
        for part in self.parts:
            part.drop()


Kept = Carried | Rows | Stack
