"""tf.Module: objects that hold variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from treadle.compat.tensorflow.variable import Variable


class Module:
    """Base of objects with variables in their attributes, in lists and dictionaries of these, and in modules among them."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or type(self).__name__.lower()

    @property
    def name(self) -> str:
        return self._name

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All its variables, in the order of the names of its attributes."""
        return tuple(item for item in self._parts() if isinstance(item, Variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those of them that are not said to stay as they are."""
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """The modules inside it."""
        return tuple(item for item in self._parts() if isinstance(item, Module))

    def _parts(self) -> list[Any]:
        found: dict[int, Any] = {}
        open_: list[Any] = [self]
        while open_:
            inner = [item for name, value in sorted(vars(open_.pop(0)).items()) for item in _items(value)]
            fresh = [item for item in inner if id(item) not in found and item is not self]
            found.update((id(item), item) for item in fresh)
            open_ += [item for item in fresh if isinstance(item, Module)]
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
