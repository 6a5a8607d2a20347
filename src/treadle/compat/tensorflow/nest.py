"""Structures of lists, tuples and dictionaries, as fetches and loop variables come in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


class Composite:
    """What is made of tensors, its `parts`, which are its leaves: a TensorArray."""

    def parts(self) -> list[Any]:
        """The tensors it is made of."""
        raise NotImplementedError

    def with_parts(self, parts: Sequence[Any]) -> Any:
        """The same with other tensors."""
        raise NotImplementedError


def flatten(structure: Any) -> list[Any]:
    """The leaves of `structure`, dictionaries in the order of their sorted keys. None is a leaf."""
    if isinstance(structure, Composite):
        return structure.parts()
    if isinstance(structure, Mapping):
        return [leaf for key in _keys(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in flatten(item)]
    return [structure]


def flatten_up_to(shallow: Any, structure: Any) -> list[Any]:
    """The parts of `structure` that stand where `shallow` has leaves. Raises TypeError if it has not its form."""
    if not is_nested(shallow):
        return [structure]
    if not is_nested(structure) or len(shallow) != len(structure):
        raise TypeError(f"wanted {len(shallow)} parts as in {shallow!r}, got {structure!r}")
    keys = _keys(shallow) if isinstance(shallow, Mapping) else range(len(shallow))
    return [leaf for key in keys for leaf in flatten_up_to(shallow[key], structure[key])]


def structure_of(structure: Any) -> Any:
    """What `structure` is without its leaves, as something to compare."""
    if isinstance(structure, Mapping):
        keys = _keys(structure)
        return type(structure), tuple(keys), tuple(structure_of(structure[key]) for key in keys)
    if isinstance(structure, (list, tuple)):
        return type(structure), tuple(map(structure_of, structure))
    return None


def map_structure(func: Callable[..., Any], *structures: Any) -> Any:
    """`func` of the leaves of structures of one form, in that form. Raises ValueError if their forms differ."""
    for other in structures[1:]:
        assert_same_structure(structures[0], other)
    return pack_sequence_as(structures[0], [func(*leaves) for leaves in zip(*map(flatten, structures), strict=True)])


def is_nested(structure: Any) -> bool:
    """Whether it has leaves inside."""
    return isinstance(structure, (Mapping, list, tuple))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raises ValueError or TypeError if two structures are not of one form."""
    one, two = structure_of(nest1), structure_of(nest2)
    if one == two or (not check_types and len(flatten(nest1)) == len(flatten(nest2))):
        return
    raise ValueError(f"The two structures don't have the same nested structure: {nest1!r} and {nest2!r}")


def pack_sequence_as(structure: Any, leaves: Sequence[Any]) -> Any:
    """`leaves` in the form of `structure`."""
    return _pack(structure, iter(leaves))


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Composite):
        return structure.with_parts([next(leaves) for _ in structure.parts()])
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
