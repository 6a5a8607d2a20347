"""Attributes that hold expressions for sizes, for the NumPy reference of an op: numbers in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from treadle.errors import InternalError
from treadle.graph.dim import DimExpr, RealExpr


def sizes_in(attrs: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the expressions in `attrs`, in their order."""
    return tuple(size for attr in attrs.values() for size in _sizes_in(attr))


def with_numbers(attrs: dict[str, Any], sizes: Sequence[int]) -> dict[str, Any]:
    """Returns `attrs` with `sizes` in place of the expressions that `sizes_in` returns."""
    if not sizes:
        return attrs
    number = iter(sizes)
    return {name: _with_numbers(attr, number) for name, attr in attrs.items()}


def _sizes_in(attr: Any) -> Iterator[int]:
    if isinstance(attr, RealExpr):
        raise InternalError(f"an attribute for a NumPy reference is the real expression {attr}")
    if isinstance(attr, DimExpr):
        yield attr
    elif isinstance(attr, list | tuple):
        for part in attr:
            yield from _sizes_in(part)


def _with_numbers(attr: Any, number: Iterator[int]) -> Any:
    if isinstance(attr, DimExpr):
        return next(number)
    if any(True for _ in _sizes_in(attr)):
        return tuple(_with_numbers(part, number) for part in attr)
    return attr
