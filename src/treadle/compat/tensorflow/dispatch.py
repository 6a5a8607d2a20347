"""Calls of ops by name, for modules below the table of ops.

Operators of tensors, conversions and control flow call ops, and ops are made of tensors. `table` therefore registers
the ops here when the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_OPS: dict[str, Callable[..., Any]] = {}


def register(ops: Mapping[str, Callable[..., Any]]) -> None:
    """Make `ops` callable by their names."""
    _OPS.update(ops)


def call(op: str, *args: Any, **kwargs: Any) -> Any:
    """Return the result of the registered op called `op`."""
    return _OPS[op](*args, **kwargs)
