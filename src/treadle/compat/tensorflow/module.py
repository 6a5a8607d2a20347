"""tf.Module: objects that hold variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from treadle.compat.tensorflow.variable import Variable


class Module:
    """An object with variables in its attributes, in lists and dictionaries of these, and in submodules.

    See tf.Module in TensorFlow's documentation.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name or type(self).__name__.lower()

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._name

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables, in the order of the names of the attributes."""
        return tuple(item for item in self._members() if isinstance(item, Variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """The trainable variables."""
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """The modules inside it, at any depth."""
        return tuple(item for item in self._members() if isinstance(item, Module))

    def _members(self) -> list[Any]:
        found: dict[int, Any] = {}
        pending: list[Any] = [self]
        while pending:
            inner = [item for name, value in sorted(vars(pending.pop(0)).items()) for item in _items(value)]
            new = [item for item in inner if id(item) not in found and item is not self]
            found.update((id(item), item) for item in new)
            pending += [item for item in new if isinstance(item, Module)]
        return list(found.values())


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, (Variable, Module)):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _items(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _items(item)
