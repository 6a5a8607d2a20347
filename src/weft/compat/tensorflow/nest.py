"""Structures of lists, tuples and dictionaries, as fetches and loop variables come in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def flatten(structure: Any) -> list[Any]:
    """The leaves of `structure`, dictionaries in the order of their sorted keys. None is a leaf."""
    if isinstance(structure, Mapping):
        return [leaf for key in _keys(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in flatten(item)]
    return [structure]


def pack_sequence_as(structure: Any, leaves: Sequence[Any]) -> Any:
    """`leaves` in the form of `structure`."""
    return _pack(structure, iter(leaves))


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Mapping):
        found = {key: _pack(structure[key], leaves) for key in _keys(structure)}
        return type(structure)((key, found[key]) for key in structure)  # type: ignore[call-arg]
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*(_pack(item, leaves) for item in structure))
    if isinstance(structure, (list, tuple)):
        return type(structure)(_pack(item, leaves) for item in structure)
    return next(leaves)


def _keys(mapping: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        return list(mapping)
