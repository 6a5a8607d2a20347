"""The names that a function's code uses: which globals and attributes it may read, and whether it writes any."""

from __future__ import annotations

import dis
import types
import weakref
from dataclasses import dataclass

_WRITES = frozenset({"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "LOAD_BUILD_CLASS"})
_UNSEEN = frozenset({"__dict__", "__class__", "AttributeError"})
"""Names through which code reads what it does not name itself."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a code object.

    `globals_` and `attributes` (which include strings in the code) may be read; `writes` is the side effect that
    prevents a replay, or empty.
    """

    globals_: frozenset[str]
    attributes: frozenset[str]
    writes: str


_KNOWN: weakref.WeakKeyDictionary[types.CodeType, Names] = weakref.WeakKeyDictionary()


def names_of(code: types.CodeType) -> Names:
    """Returns the names in `code` and in the code objects nested in it."""
    found = _KNOWN.get(code)
    if found is None:
        found = _KNOWN[code] = _names(code)
    return found


def _names(code: types.CodeType) -> Names:
    globals_: set[str] = set()
    attributes: set[str] = set()
    writes = ""
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            globals_.add(str(instruction.argval))
        elif name in _WRITES:
            writes = f"it has {name} {instruction.argval}"
        if isinstance(instruction.argval, str):
            attributes.add(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = names_of(constant)
            globals_ |= inner.globals_
            attributes |= inner.attributes
            writes = writes or inner.writes
        elif isinstance(constant, str) and constant.isidentifier():
            attributes.add(constant)
    unseen = _UNSEEN & attributes
    return Names(frozenset(globals_), frozenset(attributes), writes or (f"it reads {min(unseen)}" if unseen else ""))
