"""Values that a call is given, as parts of a key: two with one key are interchangeable."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import numpy as np

PLAIN: frozenset[type] = frozenset({int, bool, str, bytes, type(None), type(Ellipsis), type})
"""Types of values that stand for themselves."""


def number(value: float) -> float | str:
    """A float as a part of a form: 0.0 is not -0.0, and one that is not a number is like itself."""
    return value if value and value == value else repr(value)  # noqa: PLR0124 - not a number


def parts(value: Any) -> Sequence[Any] | None:
    """What a value consists of that is told by its parts; None if it is not."""
    if isinstance(value, tuple) or type(value) is list:
        return value
    if type(value) in (dict, OrderedDict):
        return [*value, *value.values()]
    if isinstance(value, slice):
        return (value.start, value.stop, value.step)
    return (value.tobytes(),) if isinstance(value, np.generic) else None


def mapped(structure: Any, function: Callable[[Any], Any], kind: type | tuple[type, ...]) -> Any:
    """`structure` of tuples, lists and dicts with `function` applied to what is of `kind`."""
    if isinstance(structure, kind):
        return function(structure)
    if isinstance(structure, tuple):
        found = [mapped(each, function, kind) for each in structure]
        if all(map(is_, found, structure)):
            return structure
        return type(structure)(*found) if hasattr(structure, "_fields") else tuple(found)
    if isinstance(structure, list):
        return [mapped(each, function, kind) for each in structure]
    if isinstance(structure, dict):
        return {key: mapped(each, function, kind) for key, each in structure.items()}
    return structure
