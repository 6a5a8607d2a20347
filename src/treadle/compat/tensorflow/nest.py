"""Structures: nested lists, tuples and dictionaries of leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


class Composite:
    """An object that consists of tensors, which are its leaves, such as a TensorArray."""

    def parts(self) -> list[Any]:
        """Return the tensors it consists of."""
        raise NotImplementedError

    def with_parts(self, parts: Sequence[Any]) -> Any:
        """Return the same object with other tensors."""
        raise NotImplementedError


def flatten(structure: Any) -> list[Any]:
    """Return the leaves of a structure, dictionaries in sorted order of their keys. None is a leaf.

    See tf.nest.flatten in TensorFlow's documentation.
    """
    if isinstance(structure, Composite):
        return structure.parts()
    if isinstance(structure, Mapping):
        return [leaf for key in _keys(structure) for leaf in flatten(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in flatten(item)]
    return [structure]


def flatten_up_to(shallow: Any, structure: Any) -> list[Any]:
    """Return the parts of `structure` at the leaves of `shallow`. Raises TypeError if the structures do not match."""
    if not is_nested(shallow):
        return [structure]
    if not is_nested(structure) or len(shallow) != len(structure):
        raise TypeError(f"wanted {len(shallow)} parts as in {shallow!r}, got {structure!r}")
    keys = _keys(shallow) if isinstance(shallow, Mapping) else range(len(shallow))
    return [leaf for key in keys for leaf in flatten_up_to(shallow[key], structure[key])]


def structure_of(structure: Any) -> Any:
    """Return a structure without its leaves, for comparisons."""
    if isinstance(structure, Mapping):
        keys = _keys(structure)
        return type(structure), tuple(keys), tuple(structure_of(structure[key]) for key in keys)
    if isinstance(structure, (list, tuple)):
        return type(structure), tuple(map(structure_of, structure))
    return None


def map_structure(func: Callable[..., Any], *structures: Any) -> Any:
    """Apply `func` to the leaves of structures. See tf.nest.map_structure in TensorFlow's documentation.

    Raises:
        ValueError: the structures differ.
    """
    for other in structures[1:]:
        assert_same_structure(structures[0], other)
    return pack_sequence_as(structures[0], [func(*leaves) for leaves in zip(*map(flatten, structures), strict=True)])


def is_nested(structure: Any) -> bool:
    """Return whether `structure` is a list, tuple or dictionary.

    See tf.nest.is_nested in TensorFlow's documentation.
    """
    return isinstance(structure, (Mapping, list, tuple))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Check that two structures are equal apart from their leaves.

    See tf.nest.assert_same_structure in TensorFlow's documentation.

    Args:
        nest1: a structure.
        nest2: another structure.
        check_types: False compares the number of leaves only.

    Raises:
        ValueError: they differ.
    """
    one, two = structure_of(nest1), structure_of(nest2)
    if one == two or (not check_types and len(flatten(nest1)) == len(flatten(nest2))):
        return
    raise ValueError(f"The two structures don't have the same nested structure: {nest1!r} and {nest2!r}")


def pack_sequence_as(structure: Any, leaves: Sequence[Any]) -> Any:
    """Return `leaves` in the structure of `structure`. See tf.nest.pack_sequence_as in TensorFlow's documentation."""
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
