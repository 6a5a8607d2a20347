"""Checks that branches and iterations over tensors agree in names, structures, dtypes and shapes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from treadle.compat.tensorflow import nest
from treadle.compat.tensorflow.convert import convert_to_tensor
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.tensor import Tensor

BRANCHES = ("main", "else")


class Undefined:
    """Stands for the value of a name without one."""

    def __repr__(self) -> str:
        return "<undefined>"


undefined = Undefined()


def value_or_undefined(read: Callable[[], Any]) -> Any:
    """Return the value of a name or target, or `undefined`."""
    try:
        return read()
    except (NameError, AttributeError, LookupError):
        return undefined


@dataclass(frozen=True, slots=True)
class Names:
    """What a statement assigns, by its source, which of that is live after it, and where the statement is."""

    texts: tuple[str, ...]
    live: tuple[bool, ...]
    where: str
    has_options: bool = False
    """Whether it is a loop that calls set_loop_options."""


def as_tensors(names: Names, at: int, value: Any, statement: str) -> Any:
    """Return `value` of name `at` with its leaves as tensors. Raises TypeError if that is impossible."""
    try:
        return nest.pack_sequence_as(value, [convert_to_tensor(leaf) for leaf in nest.flatten(value)])
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{names.where}: '{names.texts[at]}' is {value!r} in an `{statement}` over a tensor, "
            "where it must be tensors or numbers"
        ) from error


def check_initialized(names: Names, at: int, value: Any, branch: str) -> None:
    """Raise ValueError if name `at` has no value after a branch of an `if`."""
    if value is undefined:
        raise ValueError(f"{names.where}: '{names.texts[at]}' must also be initialized in the {branch} branch")


def check_given(names: Names, at: int, value: Any, branch: str) -> None:
    """Raise ValueError if name `at` is undefined or None after a branch of an `if`."""
    check_initialized(names, at, value, branch)
    if any(leaf is None for leaf in nest.flatten(value)):
        raise ValueError(f"{names.where}: '{names.texts[at]}' is None at the end of the {branch} branch.")


def check_branches(where: str, name: str, main: Any, other: Any) -> None:
    """Raise ValueError or TypeError if the values of `name` after the branches of an `if` do not match."""
    ours, theirs = nest.flatten(main), nest.flatten(other)
    if nest.structure_of(main) != nest.structure_of(other) or len(ours) != len(theirs):
        raise TypeError(
            f"{where}: '{name}' must have the same nested structure in the main and else branches, "
            f"got {main!r} and {other!r}"
        )
    for mine, its in zip(ours, theirs, strict=True):
        for leaf, branch in zip((mine, its), BRANCHES, strict=True):
            if leaf is None and mine is not its:
                raise ValueError(f"{where}: '{name}' is None at the end of the {branch} branch.")
        one, two = _dtype(mine), _dtype(its)
        if one != two and one is not None and two is not None:
            raise TypeError(
                f"{where}: '{name}' has dtype {one.name} in the main branch, but dtype {two.name} in the else branch"
            )


def _dtype(leaf: Any) -> Any:
    """Return the dtype of a leaf as a tensor, None if it cannot be one."""
    try:
        return convert_to_tensor(leaf).dtype
    except (TypeError, ValueError):
        return None


def check_iteration(names: Names, at: int, first: Any, after: Any, shapes: list[TensorShape]) -> Any:
    """Return the value `after` of name `at` after an iteration, as tensors; `first` was its value before the loop.

    Raises ValueError or TypeError if the next iteration cannot take it.
    """
    name = f"{names.where}: '{names.texts[at]}'"
    if after is undefined:
        raise ValueError(f"{name} has no value at the end of the iteration.")
    if any(leaf is None for leaf in nest.flatten(after)):
        raise ValueError(f"{name} is None at the end of the iteration.")
    found = as_tensors(names, at, after, "while")
    ours, theirs = nest.flatten(first), nest.flatten(found)
    if nest.structure_of(first) != nest.structure_of(after) or len(ours) != len(theirs):
        raise TypeError(
            f"{name} does not have the same nested structure after one iteration: {first!r} became {after!r}"
        )
    for one, two, shape in zip(ours, theirs, shapes, strict=True):
        if one.dtype != two.dtype:
            raise TypeError(
                f"{name} has dtype {one.dtype.name} before the loop, but dtype {two.dtype.name} after one iteration"
            )
        if not _fits(two.shape, shape):
            raise ValueError(
                f"{name} has shape {shape} before the loop, but shape {two.shape} after one iteration. "
                "Use tf.autograph.experimental.set_loop_options to set shape invariants (shape_invariants=...)."
            )
    return found


def _fits(shape: TensorShape, wanted: TensorShape) -> bool:
    """Return whether a shape, if its rank is known, has the sizes that `wanted` knows."""
    sizes, known = shape.dims, wanted.dims
    if sizes is None or known is None:
        return True
    return len(sizes) == len(known) and all(b is None or a == b for a, b in zip(sizes, known, strict=True))


def as_condition(test: Any, statement: str, where: str) -> Any:
    """Return a condition as a tensor of the graph, or as a bool.

    Raises ValueError for a tensor that is no bool scalar.
    """
    value = test.read_value() if hasattr(test, "read_value") else test
    if not isinstance(value, Tensor):
        return bool(value)
    known = [size for size in value.shape.dims or () if size is not None]
    problem = f"{where}: condition of {statement} expected to be `tf.bool` scalar, got {value!r}"
    if value.dtype.name != "bool":
        raise ValueError(f"{problem}; to use as boolean Tensor, use `tf.cast`; to check for None, use `is not None`")
    if any(size > 1 for size in known):
        raise ValueError(
            f"{problem}; reduce it with tf.reduce_all or tf.reduce_any; to check for None, use `is not None`"
        )
    return value
