"""Runs that read PyTorch's tensors and write new ones, without NumPy arrays in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from treadle.compile import Session, runner_of
from treadle.frontends.torch.dtypes import CORE

_guards: Any = torch._C._dynamo.guards
"""PyTorch's own functions for checking arguments and making results."""

_HAS_ALL = all(hasattr(_guards, name) for name in ("TensorGuards", "_empty_strided_cpu"))
"""True if this version of PyTorch has them under these names."""

_address = torch.Tensor.data_ptr


class Direct:
    """A plan bound to tensors of one layout.

    A call with other tensors (another class, dtype, size or memory order, or marked as conjugate or negative) returns
    None; the caller then converts them to arrays, copying where necessary.
    """

    __slots__ = ("_check", "_dtypes", "_fill", "_shapes", "_strides")

    def __init__(
        self, fill: Callable[[list[int], object], None], tensors: Sequence[Any], results: Sequence[Any]
    ) -> None:
        self._fill = fill
        self._check = _guards.TensorGuards(
            *tensors,
            dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
            dynamic_dims_strides=[_needed(tensor.shape) for tensor in tensors],
        ).check
        self._shapes = [tuple(result.shape) for result in results]
        self._strides = [_strides(shape) for shape in self._shapes]
        self._dtypes = [result.dtype for result in results]

    def __call__(self, tensors: tuple[Any, ...]) -> list[Any] | None:
        """Returns the results in new tensors; None for tensors of another layout."""
        if not self._check(*tensors):
            return None
        made = list(map(_guards._empty_strided_cpu, self._shapes, self._strides, self._dtypes))
        self._fill([*map(_address, tensors), *map(_address, made)], (tensors, made))
        return made


def direct(
    session: Session, arrays: Mapping[str, Any], tensors: Sequence[Any], results: Sequence[Any]
) -> Direct | None:
    """Returns a Direct for `session` and tensors of this layout, or None if one is not possible.

    `arrays` and `results` are what a run with these tensors was given and returned.
    """
    if not _HAS_ALL or not all(map(_is_plain, (*tensors, *results))):
        return None
    fill = runner_of(session).prepare_at(arrays)
    return None if fill is None else Direct(fill, tensors, results)


def _is_plain(tensor: Any) -> bool:
    """Returns True if the tensor's elements are contiguous in CPU memory, as treadle's arrays are."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and tensor.dtype in CORE
        and tensor.numel() > 0
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not tensor._is_zerotensor()
    )


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a contiguous tensor, in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _needed(shape: Sequence[int]) -> list[int | None]:
    """Returns the strides that a contiguous tensor must have; None for axes of size 1, where any will do."""
    return [stride if size > 1 else None for size, stride in zip(shape, _strides(shape), strict=True)]
