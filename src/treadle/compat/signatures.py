"""Arguments of calls as parts of a signature: values with equal parts are interchangeable."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import is_not
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

ATOMS: frozenset[type] = frozenset({int, bool, str, bytes, type(None), type(Ellipsis), type})
"""Types whose values are parts of a signature themselves."""


def float_part(value: float) -> float | str:
    """Return a float as a part of a signature: 0.0 and -0.0 differ, all NaNs are equal."""
    return value if value and value == value else repr(value)  # noqa: PLR0124 - false for NaN


def elements_of(value: Any) -> Sequence[Any] | None:
    """Return the values that stand for a container, slice or NumPy scalar in a signature; None for other types."""
    if isinstance(value, tuple) or type(value) is list:
        return value
    if type(value) in (dict, OrderedDict):
        return [*value, *value.values()]
    if isinstance(value, slice):
        return (value.start, value.stop, value.step)
    return (value.tobytes(),) if isinstance(value, np.generic) else None


def map_structure(structure: Any, function: Callable[[Any], Any], kind: type | tuple[type, ...]) -> Any:
    """Return nested tuples, lists, dicts and slices with `function` applied to the values of type `kind`."""
    if isinstance(structure, kind):
        return function(structure)
    if isinstance(structure, tuple):
        items = [map_structure(each, function, kind) for each in structure]
        if any(map(is_not, items, structure)):
            return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)
    elif isinstance(structure, list):
        return [map_structure(each, function, kind) for each in structure]
    elif isinstance(structure, dict):
        return {key: map_structure(each, function, kind) for key, each in structure.items()}
    elif isinstance(structure, slice):
        ends = (structure.start, structure.stop, structure.step)
        return slice(*(map_structure(each, function, kind) for each in ends))
    return structure


def values_in(structure: Any, kind: type[T] | tuple[type[T], ...]) -> list[T]:
    """Return the values of type `kind` in nested tuples, lists, dicts and slices, in order."""
    found: list[T] = []
    map_structure(structure, found.append, kind)
    return found
