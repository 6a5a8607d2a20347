"""What a call is given, as a key: two calls with one key may differ in the elements of their tensors alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

import numpy as np

from weft.compat.torch.dtypes import dtype
from weft.compat.torch.tensor import Tensor

_VALUES = frozenset({int, bool, str, bytes, type(None), type(Ellipsis), dtype, type})
"""Types of values that stand for themselves."""


def describe(values: Sequence[Any], key: list[Any], tensors: list[Tensor], objects: list[Any] | None = None) -> bool:
    """Add `values` to `key`, and the tensors among them, in order, to `tensors`; False for what no key can tell.

    A tensor is told by its class, element type and shape, by its strides unless its memory is contiguous, and by itself
    if its elements are constants.
    Values of other types are told by their identity and added to `objects`, if that is not None.
    """
    for value in values:
        kind = type(value)
        key.append(kind)
        if isinstance(value, Tensor):
            array = value.array
            if array is None:
                return False
            key.append(array.dtype)
            key.append(array.shape)
            if value.frozen or not array.flags.c_contiguous:
                key.append((array.strides, id(value) if value.frozen else 0))
            tensors.append(value)
        elif kind in _VALUES:
            key.append(value)
        elif kind is float:
            key.append(value if value and value == value else repr(value))  # noqa: PLR0124 - not a number
        else:
            parts = _parts(value)
            if parts is None:
                if objects is None:
                    return False
                objects.append(value)
                parts = (id(value),)
            key.append(len(parts))
            if not describe(parts, key, tensors, objects):
                return False
    return True


def _parts(value: Any) -> Sequence[Any] | None:
    """What a value consists of that is told by its parts."""
    if isinstance(value, tuple) or type(value) is list:
        return value
    if type(value) in (dict, OrderedDict):
        return [*value, *value.values()]
    if isinstance(value, slice):
        return (value.start, value.stop, value.step)
    return (value.tobytes(),) if isinstance(value, np.generic) else None


def described(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    key: list[Any],
    tensors: list[Tensor],
    objects: list[Any] | None = None,
) -> bool:
    """`describe` for the arguments of a call."""
    if kwargs:
        key.extend(kwargs)
        args = (*args, *kwargs.values())
    return describe(args, key, tensors, objects)


def aliases(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """For each tensor the first place where the same one is, if some are there twice."""
    if len(tensors) < 2:
        return ()
    ids = list(map(id, tensors))
    return () if len(set(ids)) == len(ids) else tuple(map(ids.index, ids))


def mapped(structure: Any, function: Callable[[Any], Any], kind: type) -> Any:
    """`structure` of tuples, lists and dicts with `function` applied to what is of `kind`."""
    if isinstance(structure, kind):
        return function(structure)
    if isinstance(structure, tuple):
        parts = [mapped(each, function, kind) for each in structure]
        if all(map(is_, parts, structure)):
            return structure
        return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)
    if isinstance(structure, list):
        return [mapped(each, function, kind) for each in structure]
    if isinstance(structure, dict):
        return {key: mapped(each, function, kind) for key, each in structure.items()}
    return structure


def leaves(structure: Any) -> list[Tensor]:
    """The tensors in `structure`, in order."""
    found: list[Tensor] = []
    mapped(structure, found.append, Tensor)
    return found


def containers(structure: Any) -> set[int]:
    """The ids of the lists and dicts in `structure`."""
    found: set[int] = set()
    if type(structure) in (list, dict):
        found.add(id(structure))
    if isinstance(structure, tuple | list | dict):
        for each in structure.values() if isinstance(structure, dict) else structure:
            found |= containers(each)
    return found
