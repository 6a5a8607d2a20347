"""What a call is given, as a key: two calls with one key may differ in the elements of their tensors alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treadle.compat.signatures import ATOMS, elements_of, float_part, map_structure
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.tensor import Tensor

_VALUES = ATOMS | {dtype}
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
            key.append(float_part(value))
        else:
            consists_of = elements_of(value)
            if consists_of is None:
                if objects is None:
                    return False
                objects.append(value)
                consists_of = (id(value),)
            key.append(len(consists_of))
            if not describe(consists_of, key, tensors, objects):
                return False
    return True


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


def leaves(structure: Any) -> list[Tensor]:
    """The tensors in `structure`, in order."""
    found: list[Tensor] = []
    map_structure(structure, found.append, Tensor)
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
