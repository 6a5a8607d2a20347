"""Signatures of calls: calls with equal signatures differ in nothing but the elements of their tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from treadle.compat.signatures import ATOMS, elements_of, float_part, values_in
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.tensor import Tensor

_VALUES = ATOMS | {dtype}
"""Types of values that stand for themselves."""


def append_signature(
    values: Sequence[Any], key: list[Any], tensors: list[Tensor], objects: list[Any] | None = None
) -> bool:
    """Appends the parts of `values` to `key` and their tensors, in order, to `tensors`; False if one has no signature.

    A tensor's parts are its class, dtype and shape, its strides unless it is contiguous, and its identity if its
    elements are constants. Values of other types are identified by their id and appended to `objects`, unless that is
    None.
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
            if not append_signature(consists_of, key, tensors, objects):
                return False
    return True


def append_call_signature(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    key: list[Any],
    tensors: list[Tensor],
    objects: list[Any] | None = None,
) -> bool:
    """Does the same as `append_signature` for the arguments of a call."""
    if kwargs:
        key.extend(kwargs)
        args = (*args, *kwargs.values())
    return append_signature(args, key, tensors, objects)


def aliases(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Returns, for each tensor, the position of its first occurrence; empty if all are different."""
    if len(tensors) < 2:
        return ()
    ids = list(map(id, tensors))
    return () if len(set(ids)) == len(ids) else tuple(map(ids.index, ids))


def tensors_in(structure: Any) -> list[Tensor]:
    """Returns the tensors in `structure`, in order."""
    return values_in(structure, Tensor)


def container_ids(structure: Any) -> set[int]:
    """Returns the ids of the lists and dicts in `structure`."""
    found: set[int] = set()
    if type(structure) in (list, dict):
        found.add(id(structure))
    if isinstance(structure, tuple | list | dict):
        for each in structure.values() if isinstance(structure, dict) else structure:
            found |= container_ids(each)
    return found
