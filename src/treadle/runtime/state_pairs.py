"""Which inputs and outputs of a model are the state that its runs pass on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from treadle.errors import InputError
from treadle.runtime.signature import Interface, Tensor, names

T = TypeVar("T")

_BEFORE = frozenset({"past", "prev", "previous", "initial", "init", "old", "in", "input"})
_AFTER = frozenset({"present", "new", "next", "updated", "final", "out", "output"})
"""Words by which names of inputs and outputs of one state differ."""


class Growth(NamedTuple):
    """How a run appends to an input in place: which `output` it becomes, and the `axis` that grows.

    `parts` are the names of inputs and outputs in the form that appends: those of the pair itself, or of the parts that
    it stacks along the axes `stacked`, of `sizes`.
    """

    output: str
    axis: int
    parts: tuple[tuple[str, str], ...]
    stacked: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    def rows(self, shape: Sequence[T]) -> tuple[T, ...]:
        """The shape of a part, the axis that grows first, of an input of `shape`."""
        others = (size for axis, size in enumerate(shape) if axis != self.axis and axis not in self.stacked)
        return (shape[self.axis], *others)

    def whole(self, rows: Sequence[int]) -> tuple[int, ...]:
        """The shape of the input whose parts have the shape `rows`, the axis that grows first."""
        first, *others = rows
        known = {self.axis: first, **dict(zip(self.stacked, self.sizes, strict=True))}
        left = iter(others)
        return tuple(known[axis] if axis in known else next(left) for axis in range(len(rows) + len(self.stacked)))


def growth_of(
    output: str, axis: int, parts: Sequence[Sequence[str]], stacked: Sequence[int], sizes: Sequence[int]
) -> Growth:
    """Return the Growth whose fields have been stored as lists."""
    return Growth(output, axis, tuple((before, after) for before, after in parts), tuple(stacked), tuple(sizes))


class Pair(NamedTuple):
    """An input that is an output of the run before; with `growth` a run appends to it in place."""

    input: Tensor
    output: Tensor
    growth: Growth | None

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The names of inputs and outputs of what runs the model."""
        return ((self.input.name, self.output.name),) if self.growth is None else self.growth.parts

    @property
    def axis(self) -> int | None:
        """The axis along which a run appends in place; None if it does not."""
        return None if self.growth is None else self.growth.axis

    def grows(self, axis: int) -> bool:
        """Whether the size of `axis` may change from run to run."""
        if self.axis is not None:
            return axis == self.axis
        if self.input.shape is None or isinstance(self.input.shape[axis], int):
            return False
        return self.output.shape is None or self.input.shape[axis] != self.output.shape[axis]


def chosen_pairs(interface: Interface, pairs: Mapping[str, str] | None, growing: Mapping[str, Growth]) -> list[Pair]:
    """Return the pairs of a model's state.

    Args:
        interface: The model's inputs and outputs.
        pairs: Outputs by the names of inputs. None: those whose names or the graph say so.
        growing: How outputs append to inputs, by the name of the input.

    Raises:
        InputError: A name is unknown or a pair does not fit, or there are none.
    """
    inputs = {tensor.name: tensor for tensor in interface.inputs}
    outputs = {tensor.name: tensor for tensor in interface.outputs}
    if pairs is None:
        pairs = _found(interface, growing)
        if not pairs:
            raise InputError(
                "no output has a name like an input's of a state, such as 'past.0.key' and 'present.0.key'; "
                f"name the pairs: the inputs are {names(interface.inputs)}, the outputs {names(interface.outputs)}"
            )
    elif not isinstance(pairs, Mapping):
        raise InputError(f"pairs: wanted a mapping of inputs to outputs or None, got {type(pairs).__name__}")
    elif not pairs:
        raise InputError("pairs: a state has one pair at least, got none; run the session itself, or name pairs")
    chosen = []
    for name, output in pairs.items():
        if name not in inputs:
            raise InputError(f"pairs: there is no input {name!r}; the inputs are {names(interface.inputs)}")
        if output not in outputs:
            raise InputError(f"pairs: there is no output {output!r}; the outputs are {names(interface.outputs)}")
        fault = _misfit(inputs[name], outputs[output])
        if fault is not None:
            raise InputError(
                f"pairs: input {inputs[name]} cannot be output {outputs[output]} of the run before: {fault}"
            )
        growth = growing.get(name)
        chosen.append(Pair(inputs[name], outputs[output], growth if growth and growth.output == output else None))
    twice = [output for output in pairs.values() if list(pairs.values()).count(output) > 1]
    if twice:
        raise InputError(f"pairs: output {twice[0]!r} is in two pairs; wanted each once")
    return chosen


def _found(interface: Interface, growing: Mapping[str, Growth]) -> dict[str, str]:
    """The pairs that have names of a state, and those of inputs that the model appends to."""
    found: dict[str, str] = {}
    for before in interface.inputs:
        like = [after.name for after in interface.outputs if _are_alike(before, after)]
        if len(like) == 1 and like[0] not in found.values():
            found[before.name] = like[0]
    for name, growth in growing.items():
        if name not in found and growth.output not in found.values():
            found[name] = growth.output
    order = [tensor.name for tensor in interface.inputs]
    return {name: found[name] for name in order if name in found}


def _are_alike(before: Tensor, after: Tensor) -> bool:
    return _misfit(before, after) is None and not _stems(before.name, _BEFORE, "0").isdisjoint(
        _stems(after.name, _AFTER, "n")
    )


def _stems(name: str, words: frozenset[str], ending: str) -> set[tuple[str, ...]]:
    """What is left of `name` without `words`, also without the `ending` of its last word, as in h0 and hn."""
    plain = re.sub("(past|present)_key_values", r"\1", name.lower())
    parts = re.split(r"[^a-z0-9]+", plain)
    stem = tuple(word for word in parts if word and word not in words)
    if not stem:
        return {()} if {"past", "present"} & set(parts) else set()
    shorter = stem[-1].removesuffix(ending)
    return {stem, (*stem[:-1], shorter)} if shorter else {stem}


def _misfit(before: Tensor, after: Tensor) -> str | None:
    """Why `before` cannot be `after` of the run before; None if it can."""
    if before.dtype != after.dtype:
        return "their dtypes differ"
    if before.shape is None:
        return "the input's rank is not known"
    if after.shape is None:
        return None
    if len(before.shape) != len(after.shape):
        return "their ranks differ"
    for axis, (size, next_size) in enumerate(zip(before.shape, after.shape, strict=True)):
        if isinstance(size, int) and isinstance(next_size, int) and size != next_size:
            return f"their sizes of axis {axis} differ"
    return None
