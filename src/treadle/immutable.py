"""A decorator for small classes of modules that every load of a model imports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(frozen_default=True)
def immutable(kind: type[_T]) -> type[_T]:
    """Make of a class what `dataclass(frozen=True, slots=True)` makes, in a fifth of the time.

    dataclass writes and compiles six methods for each class, which was a quarter of the time to import treadle. Here
    all classes share the same methods but `__init__`. There is no field(), replace() and fields(), nor a base class
    with attributes of its own.

    Args:
        kind: The class; its annotations name the attributes, values of the class are their defaults. Methods of these
            names that it has stay.

    Returns:
        A class with these attributes alone, which cannot be set or deleted. Objects are equal, and have the same hash,
        if all attributes are.
    """
    content = dict(vars(kind))
    names = tuple(content["__annotations__"])
    defaults = {name: content.pop(name) for name in names if name in content}
    for name in ("__dict__", "__weakref__"):
        content.pop(name, None)
    arguments = ", ".join(f"{name}=_defaults[{name!r}]" if name in defaults else name for name in names)
    lines = [f"def __init__(self, {arguments}):", *(f" _set(self, {name!r}, {name})" for name in names)]
    made: dict[str, Any] = {}
    exec("\n".join(lines), {"_set": object.__setattr__, "_defaults": defaults}, made)  # noqa: S102 - as dataclass does
    made["__slots__"] = made["__match_args__"] = names
    made["_values"] = values_getter(names)
    metaclass: Any = type(kind)
    found: type[_T] = metaclass(kind.__name__, kind.__bases__, {**_METHODS, **made, **content})
    return found


def values_getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gives the tuple of these attributes of an object; it is no method, wherever it is kept."""
    return attrgetter(*names) if len(names) > 1 else _FewValues(names)


class _FewValues:
    """What attrgetter is for several attributes, for one or none."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __call__(self, one: Any) -> tuple[Any, ...]:
        return tuple([getattr(one, name) for name in self._names])


def _repr(self: Any) -> str:
    parts = ", ".join(f"{name}={value!r}" for name, value in zip(self.__match_args__, self._values(self), strict=True))
    return f"{type(self).__qualname__}({parts})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = self._values
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(self._values(self))


def _reduce(self: Any) -> tuple[type[Any], tuple[Any, ...]]:
    return type(self), self._values(self)


def _set(self: Any, name: str, value: Any) -> NoReturn:  # noqa: ARG001 - as it is called
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> NoReturn:  # noqa: ARG001 - as it is called
    raise FrozenInstanceError(f"cannot delete field {name!r}")


EQUAL, HASH = {"__eq__": _eq}, {"__hash__": _hash}
"""Methods of classes whose `_values` gives the tuple of what is compared."""
FROZEN = {"__setattr__": _set, "__delattr__": _delete}
"""Methods of classes whose attributes cannot be set or deleted."""
_METHODS = {"__repr__": _repr, "__reduce__": _reduce, **EQUAL, **HASH, **FROZEN}
