"""Calls of Python's own functions in scripts, with numbers that are not computed yet or that come out of tensors."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

from treadle.compat.signatures import values_in
from treadle.compat.torch.lazy_ints import Lazy, LazyInt
from treadle.compat.torch.state import current
from treadle.compat.torch.tensor import Tensor

_NUMBERS = ("item", "__int__", "__index__")
"""Methods of tensors that return an element."""


def number_later(function: Any, args: tuple[Any, ...]) -> Any:
    """Returns the result of a call if it is known before its arguments are computed; None for other calls.

    Integers out of tensors are computed later.
    """
    if function is isinstance and len(args) == 2 and isinstance(args[0], LazyInt):
        return isinstance(0, args[1])
    if function is len and len(args) == 1 and isinstance(args[0], Tensor) and args[0].ndim:
        return args[0].shape[0]
    if isinstance(function, types.MethodType) and function.__name__ in _NUMBERS and not args:
        return _element(function.__self__)
    return _element(args[0]) if function is int and len(args) == 1 else None


def _element(value: Any) -> LazyInt | None:
    """Returns a number that is not computed yet, or the only element of a tensor of integers; None for other values."""
    if isinstance(value, LazyInt):
        return value
    recording = current()
    if recording is None or recording.keep or not isinstance(value, Tensor) or value.dtype.category != 1:
        return None
    return None if value.frozen or any(size != 1 for size in value.shape) else recording.element(value)


def needs_numbers(function: Any) -> bool:
    """Returns True for functions and types of Python, but for methods of lists, which keep what they are given."""
    is_of_python = isinstance(function, type | types.BuiltinFunctionType)
    return is_of_python and type(getattr(function, "__self__", None)) is not list


def needed_tensors(arguments: Any) -> Iterator[Tensor]:
    """Yields the tensors that numbers among the arguments follow from."""
    for lazy in values_in(arguments, Lazy):
        yield from lazy.tensors()
