"""TorchScript's methods of lists, dictionaries and strings, and of ranges, on Python values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Number
from treadle.frontends.torch.tensor import Box

Function = Callable[..., Any]
"""(builder, arguments) -> a Python value."""


def _known(method: Callable[..., Any]) -> Function:
    """Returns `method` for Python values. Raises Unsupported if an entry is known only at run time."""

    def function(_: Any, *args: Any) -> Any:
        entries = [each for arg in args for each in (arg if isinstance(arg, list) else [arg])]
        if any(isinstance(each, Box | Number) for each in entries):
            raise Unsupported("it compares entries of a list that are known only when the graph runs")
        try:
            return method(*args)
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
            raise Fault(f"{type(error).__name__}: {error}") from None

    return function


def _method(name: str) -> Function:
    """Returns a method of the first argument, for any entries."""

    def function(_: Any, *args: Any) -> Any:
        try:
            return getattr(args[0], name)(*args[1:])
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise Fault(f"{type(error).__name__}: {error}") from None

    return function


def _delete(_: Any, entries: Any, at: Any) -> None:
    try:
        del entries[at]
    except (IndexError, KeyError) as error:
        raise Fault(f"{type(error).__name__}: {error}") from None


def _sort(entries: list[Any], reverse: bool = False) -> None:
    entries.sort(reverse=reverse)


def _range_length(low: int, high: int, step: int) -> int:
    return len(range(low, high, step))


METHODS: dict[str, Function] = {
    "aten::Delete": _delete,
    "aten::Size": lambda _, entries: list(entries),
    "aten::__derive_index": _known(lambda at, start, step: start + at * step),
    "aten::__range_length": _known(_range_length),
    "aten::clear": _method("clear"),
    "aten::count.t": _known(lambda entries, entry: entries.count(entry)),
    "aten::endswith": _method("endswith"),
    "aten::find": _method("find"),
    "aten::get": _method("get"),
    "aten::index.t": _known(lambda entries, entry: entries.index(entry)),
    "aten::join": _method("join"),
    "aten::lower": _method("lower"),
    "aten::remove.t": _known(lambda entries, entry: entries.remove(entry)),
    "aten::replace": _method("replace"),
    "aten::reverse": _method("reverse"),
    "aten::setdefault": _method("setdefault"),
    "aten::sort.t": _known(_sort),
    "aten::sorted": _known(sorted),
    "aten::startswith": _method("startswith"),
    "aten::strip": _method("strip"),
    "aten::update": _method("update"),
    "aten::upper": _method("upper"),
}
"""Node kind -> its function; those ending in `.t` apply to lists only, as tensors have ops of the same names."""
