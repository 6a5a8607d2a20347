"""Which operations a run needs, and what operations do besides computing results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from treadle.compat.tensorflow.graph import Operation
from treadle.compat.tensorflow.tensor import Tensor

EFFECTS = ("EagerPyFunc", "PyFunc", "Print", "If", "While", "Assert")
"""Kinds of operations, besides assignments, that run even if no result needs them."""


def closure(wanted: Iterable[Tensor], targets: Iterable[Operation], fed: Iterable[Tensor]) -> list[Operation]:
    """Return the operations that a run needs, in the order of their creation."""
    given = set(fed)
    found: set[Operation] = set()
    pending = [tensor.op for tensor in wanted if tensor not in given] + list(targets)
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending.extend(tensor.op for tensor in op.inputs if tensor not in given)
            pending.extend(op.control_inputs)
    return sorted(found, key=lambda op: op.number)


def accessed_variables(op: Operation) -> tuple[set[Any], set[Any]]:
    """Return the variables that `op` reads, and those that it writes."""
    reads, writes = set(op.attrs.get("reads", ())), set(op.attrs.get("writes", ()))
    if "variable" in op.attrs:
        (writes if op.kind.startswith("Assign") else reads).add(op.attrs["variable"])
    return reads, writes


def effects_of(ops: Iterable[Operation]) -> dict[str, Any]:
    """Return attributes of an operation that runs `ops`.

    They say which variables these access, whether it may be any, and whether these change anything.
    """
    found = list(ops)
    both = list(map(accessed_variables, found))
    return {
        "reads": tuple(dict.fromkeys(variable for reads, _ in both for variable in reads)),
        "writes": tuple(dict.fromkeys(variable for _, writes in both for variable in writes)),
        "opaque": any(op.attrs.get("opaque", False) for op in found),
        "changes": any(map(changes, found)),
    }


def changes(op: Operation) -> bool:
    """Return whether `op` may change something besides its results: a variable, a generator, what Python can see."""
    if "changes" in op.attrs:
        return bool(op.attrs["changes"])
    return op.kind in EFFECTS or op.kind.startswith("Assign") or "seed" in op.attrs


def is_pure(op: Operation) -> bool:
    """Return whether `op` only computes results from its operands: it changes nothing and reads no variable."""
    return not changes(op) and not any(accessed_variables(op))
