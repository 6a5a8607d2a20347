"""Type promotion: operands of several dtypes, converted to the one that PyTorch computes in."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.overflow import wrapping_scalar
from treadle.compat.torch.recording import emit
from treadle.compat.torch.tensor import Tensor
from treadle.dtypes import i64
from treadle.graph.dim import is_expression
from treadle.ops.op import Array

Operand = Any
"""A Tensor, an array or a Python number."""


_OPERANDS = (Tensor, bool, int, float, np.ndarray, np.generic)


def as_tensor(value: Operand) -> Tensor:
    """Returns `value` as a tensor; a Python number gets PyTorch's default dtype for its type."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return Tensor(value)
    if isinstance(value, bool | int | float | np.generic):
        return Tensor(np.asarray(value, dtypes.of_number(value).numpy))  # type: ignore[arg-type]
    raise TypeError(f"expected a Tensor or a number, got {type(value).__name__}")


def cast(x: Tensor, to: dtype) -> Tensor:
    """Returns `x` with the dtype `to`."""
    return x if x.dtype is to else emit("cast", x, to=to.core)


def common_type(*values: Operand) -> dtype:
    """Returns the promoted dtype of tensors and numbers."""
    dimensioned = [t.dtype for t in values if isinstance(t, Tensor) and t.ndim]
    scalars = [t.dtype for t in values if isinstance(t, Tensor) and not t.ndim]
    numbers = [dtypes.of_number(t) for t in values if not isinstance(t, Tensor)]
    return dtypes.promoted(dimensioned, scalars, numbers)


def common(*values: Operand, least: dtype | None = None) -> tuple[list[Any], dtype]:
    """Returns the operands in their promoted dtype (at least of the category of `least`), and that dtype.

    Numbers become constant arrays.
    """
    for value in values:
        if not isinstance(value, _OPERANDS) and not is_expression(value):
            raise TypeError(f"an operand must be Tensor or Number, not {type(value).__name__}")
    tensors = [Tensor(v) if isinstance(v, np.ndarray) else v for v in values]
    to = common_type(*tensors)
    if least is not None and to.category < least.category:
        to = least
    return [cast(t, to) if isinstance(t, Tensor) else _scalar(t, to) for t in tensors], to


def _scalar(number: Any, to: dtype) -> Array | Tensor:
    """Returns a number as an operand: a constant, unless it is an expression of sizes."""
    if is_expression(number):
        return cast(emit("sizes", elements=(number,), shape=(), dtype=i64), to)
    return wrapping_scalar(number, to.numpy)


def require_floats(kernel: str, kind: dtype) -> None:
    """Raises NotImplementedError, naming PyTorch's `kernel`, if the dtype is not a floating-point one."""
    if not kind.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtypes.SCALARS[kind.name]}'")
