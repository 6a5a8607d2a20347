"""Operands of several element types in the type that PyTorch computes in."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.overflow import wrapped
from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor

Operand = Any
"""A Tensor, an array or a Python number."""


def as_tensor(value: Operand) -> Tensor:
    """`value` as a tensor; a number gets the element type it has among tensors."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if isinstance(value, bool | int | float | np.generic):
        return Tensor(np.asarray(value, dtypes.of_number(value).numpy))  # type: ignore[arg-type]
    raise TypeError(f"wanted a Tensor or a number, got {type(value).__name__}")


def cast(x: Tensor, to: dtype) -> Tensor:
    """`x` with the element type `to`."""
    return x if x.dtype is to else emit("cast", x, to=to.core)


def common_type(*values: Operand) -> dtype:
    """The element type that tensors and numbers have in common."""
    dimensioned = [t.dtype for t in values if isinstance(t, Tensor) and t.ndim]
    scalars = [t.dtype for t in values if isinstance(t, Tensor) and not t.ndim]
    numbers = [dtypes.of_number(t) for t in values if not isinstance(t, Tensor)]
    return dtypes.promoted(dimensioned, scalars, numbers)


def common(*values: Operand, least: dtype | None = None) -> tuple[list[Any], dtype]:
    """The operands in their common element type (at least of the category of `least`), and that type.

    Numbers become constant arrays.
    """
    tensors = [Tensor(v) if isinstance(v, np.ndarray) else v for v in values]
    to = common_type(*tensors)
    if least is not None and to.category < least.category:
        to = least
    return [cast(t, to) if isinstance(t, Tensor) else wrapped(t, to.numpy) for t in tensors], to


def need_floats(kernel: str, kind: dtype) -> None:
    """Raises NotImplementedError, which names PyTorch's `kernel`, if the element type is not of floats."""
    if not kind.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtypes.SCALARS[kind.name]}'")
