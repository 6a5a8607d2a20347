"""Runs that give a dimension of inputs several sizes: onnxruntime takes its name for a comment."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from treadle.compat.onnxruntime.errors import InvalidArgument, error
from treadle.compile import Session
from treadle.runtime.signature import Tensor


class DimensionWarning(UserWarning):
    """A run gives a dimension of inputs several sizes, which the model declares as one."""


def several_sizes(inputs: Iterable[Tensor], arrays: Mapping[str, Any]) -> str | None:
    """Return a sentence on the first dimension that `arrays` give several sizes; None if each has one size."""
    sizes: dict[str, tuple[int, str]] = {}
    for tensor in inputs:
        array = arrays.get(tensor.name)
        if not isinstance(array, np.ndarray) or tensor.shape is None or len(tensor.shape) != array.ndim:
            continue
        for name, size in zip(tensor.shape, array.shape, strict=True):
            if not isinstance(name, str):
                continue
            other, where = sizes.setdefault(name, (size, tensor.name))
            if other != size:
                return f"{name} is {other} of the input {where!r}, but {size} of {tensor.name!r}"
    return None


class OwnSizes:
    """The session of a model each of whose inputs has sizes of its own. It is made for the first run that needs it."""

    def __init__(self, make: Callable[[], Session], *, refuses: bool) -> None:
        """Keep `make`, which returns the session. It is never called if this `refuses` all runs."""
        self._make = make
        self._refuses = refuses
        self._made: Session | None = None
        self._lock = threading.Lock()

    def session(self, why: str) -> Session:
        """Return the session, and warn before its first run; `why` says what dimension has several sizes.

        Raises InvalidArgument if such runs are refused, and what making the session raises.
        """
        if self._refuses:
            raise error(InvalidArgument, f"a run gives one dimension several sizes: {why} (strict_dims=True)")
        with self._lock:
            if self._made is None:
                self._made = self._make()
                text = f"a run gives one dimension several sizes: {why}; strict_dims=True refuses such runs"
                warnings.warn(text, DimensionWarning, stacklevel=4)
            return self._made
