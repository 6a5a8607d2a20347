"""Data classes that are made quickly: a load that compiles imports hundreds of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from treadle.immutable import EQUAL, FROZEN, HASH, values_getter

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        kind: type | None = None,
        /,
        *,
        eq: bool = True,
        frozen: bool = False,
        kw_only: bool = False,
        slots: bool = False,
        weakref_slot: bool = False,
    ) -> Any:
        """Make what `dataclasses.dataclass` makes, in a fifth of the time, for `fields` and `replace` too.

        That one writes and compiles up to eight methods for each class, which was a third of the time to import what
        compiles. Here classes share their methods, and `__init__` is written when the first object is made. A class
        that has a base made here must be made here, too.
        """

        def make(kind: type) -> type:
            made = dataclasses.dataclass(
                kind, init=False, repr=False, eq=False, kw_only=kw_only, slots=slots, weakref_slot=weakref_slot
            )
            own = vars(kind)
            compared = [field.name for field in dataclasses.fields(made) if field.compare]
            methods: dict[str, Any] = {
                "__init__": _first_init(made, frozen=frozen),
                "__repr__": _repr,
                "_values": values_getter(compared),
            }
            if eq:
                methods |= EQUAL
            if frozen:
                methods |= _FROZEN
            for name, method in methods.items():
                if name not in own:
                    setattr(made, name, method)
            if eq and own.get("__hash__") is None:
                made.__hash__ = HASH["__hash__"] if frozen else None
            return made

        return make if kind is None else make(kind)


def _first_init(kind: type, *, frozen: bool) -> Callable[..., None]:
    """Return the `__init__` of a class until it has made its first object."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - what it is
        init = _init(kind, frozen=frozen)
        if vars(kind).get("__init__") is __init__:
            kind.__init__ = init  # type: ignore[misc]
        init(self, *args, **kwargs)

    return __init__


def _init(kind: type, *, frozen: bool) -> Callable[..., None]:
    """Return the `__init__` of a data class."""
    fields: tuple[Any, ...] = dataclasses.fields(kind)
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    by_place: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for field in fields:
        value = field.name
        has_factory = field.default_factory is not dataclasses.MISSING
        if has_factory:
            names[f"_make_{value}"] = field.default_factory
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{value}"] = field.default
        if field.init:
            default = ""
            if has_factory:
                default = "=_missing"
                value = f"_make_{value}() if {value} is _missing else {value}"
            elif field.default is not dataclasses.MISSING:
                default = f"=_default_{value}"
            (by_name if field.kw_only else by_place).append(f"{field.name}{default}")
        elif has_factory:
            value = f"_make_{value}()"
        else:
            continue
        lines.append(f" _set(self, {field.name!r}, {value})" if frozen else f" self.{field.name} = {value}")
    if hasattr(kind, "__post_init__"):
        lines.append(" self.__post_init__()")
    arguments = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    made: dict[str, Any] = {}
    exec("\n".join([f"def __init__({arguments}):", *(lines or [" pass"])]), names, made)  # noqa: S102 - as dataclass does
    init: Callable[..., None] = made["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    return init


def _repr(self: Any) -> str:
    parts = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({parts})"


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN = {**FROZEN, "__getstate__": _state, "__setstate__": _set_state}
