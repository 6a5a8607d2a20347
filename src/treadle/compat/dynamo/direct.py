"""Runs from the memory of PyTorch's tensors into that of new ones, without an array in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from treadle.compile import Session, runner_of
from treadle.frontends.torch.dtypes import CORE

_guards: Any = torch._C._dynamo.guards
"""What PyTorch's own compiler checks arguments and makes results with."""

_HAS_ALL = all(hasattr(_guards, name) for name in ("TensorGuards", "_empty_strided_cpu"))
"""Whether this PyTorch has them under these names."""

_address = torch.Tensor.data_ptr


class Direct:
    """A plan that is called with tensors just like those it was made for.

    Where a call brings others (of another class, dtype, size or order in memory, marked as conjugate or negative) it
    does nothing and says so: they need the longer way through arrays, which copies what has to be.
    """

    __slots__ = ("_alike", "_dtypes", "_fill", "_shapes", "_strides")

    def __init__(
        self, fill: Callable[[list[int], object], None], tensors: Sequence[Any], results: Sequence[Any]
    ) -> None:
        self._fill = fill
        self._alike = _guards.TensorGuards(
            *tensors,
            dynamic_dims_sizes=[list(tensor.shape) for tensor in tensors],
            dynamic_dims_strides=[_needed(tensor.shape) for tensor in tensors],
        ).check
        self._shapes = [tuple(result.shape) for result in results]
        self._strides = [_strides(shape) for shape in self._shapes]
        self._dtypes = [result.dtype for result in results]

    def __call__(self, tensors: tuple[Any, ...]) -> list[Any] | None:
        """The results, in new tensors; None for tensors that are not alike."""
        if not self._alike(*tensors):
            return None
        made = list(map(_guards._empty_strided_cpu, self._shapes, self._strides, self._dtypes))
        self._fill([*map(_address, tensors), *map(_address, made)], (tensors, made))
        return made


def direct(
    session: Session, arrays: Mapping[str, Any], tensors: Sequence[Any], results: Sequence[Any]
) -> Direct | None:
    """What runs `session` for tensors like these, which gave these arrays and results; None where it cannot."""
    if not _HAS_ALL or not all(map(_is_plain, (*tensors, *results))):
        return None
    fill = runner_of(session).prepare_at(arrays)
    return None if fill is None else Direct(fill, tensors, results)


def _is_plain(tensor: Any) -> bool:
    """Whether its memory holds its elements one after the other, as treadle's arrays do."""
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
    """Those of a contiguous tensor, in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _needed(shape: Sequence[int]) -> list[int | None]:
    """Those that a contiguous tensor must have: where there is one element there may be any."""
    return [stride if size > 1 else None for size, stride in zip(shape, _strides(shape), strict=True)]
