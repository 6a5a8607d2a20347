"""Lists to which the body of a loop appends, as values that the loop makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from treadle.frontends.core_bodies import is_known
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.stacks import Joined, Stack
from treadle.graph.value import Value


def may_be_values(body: Any, env: dict[str, Any], lists: Sequence[list[Any]]) -> bool:
    """Returns True if `lists` of `env` are empty and `body` does nothing with them but append to them."""
    return not any(entries or _holders(env, entries) > 1 or _is_read(body, env, entries) for entries in lists)


def put_stack(b: Builder, env: dict[str, Any], entries: list[Any], value: Value, item: Value, depth: int) -> None:
    """Lets the names of the list `entries` stand for `value`: for each iteration what it appended, of the form `item`.

    Each entry is a list that is `depth` deep, or a tensor for 1.
    """
    rest = item.static_shape[1:]
    if is_known(value):
        rounds, each = value.static_shape[:2]
        flat = b.reshape(value, [rounds * each, *rest])
    else:
        flat = b.add("reshape", value, b.ints([-1, *rest]), allowzero=False)
    put(env, entries, Stack(flat, depth))


def put(env: dict[str, Any], entries: list[Any], made: Stack | Joined) -> None:
    """Lets the names of the list `entries` stand for what a loop has made of it."""
    env.update(dict.fromkeys([known for known, held in env.items() if held is entries], made))


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _is_read(body: Any, env: dict[str, Any], entries: list[Any]) -> bool:
    """Returns True if `body` does more with the list `entries` than append to it, or has two names for it.

    A body sees what one iteration has appended, not what those before have.
    """
    names = {known for known, held in env.items() if held is entries}
    reads = {value.debugName() for value in body.outputs()}
    used: set[str] = set()
    for node in _nodes(body):
        inputs = [value.debugName() for value in node.inputs()]
        used.update(inputs)
        reads.update(inputs[1:] if node.kind() == "aten::append" else inputs)
        reads.update(value.debugName() for block in node.blocks() for value in block.outputs())
    return bool(names & reads) or len(names & used) > 1


def _holders(env: dict[str, Any], entries: list[Any]) -> int:
    """Returns how many lists or dictionaries of `env` hold the list `entries`, plus 1."""

    def holds(held: Any) -> bool:
        parts = held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()
        return any(part is entries or holds(part) for part in parts)

    return 1 + sum(1 for held in env.values() if holds(held))
