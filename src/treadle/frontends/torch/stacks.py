"""Lists whose tensors lie stacked in one value, as a loop makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.frontends.deferred_nodes import NeedsShapeError
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder, Number
from treadle.frontends.torch.rules.shape import select
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import is_expression
from treadle.graph.shape import equal_shapes, normalize_axis
from treadle.graph.value import Value

ENTRY = "a tensor of a list that a loop has filled"
"""The owner of an entry: a write into it would have to change the list, and other entries that are the same tensor."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A list of as many tensors as the first axis of `value` is long.

    With a `depth` of 2 it is a list of lists: the first axis is the outer one, the second the inner one; and so on.
    """

    value: Value
    depth: int = 1

    def entries(self, b: Builder) -> list[Any]:
        """Returns the tensors, or lists of them. Raises Unsupported if their number is not known."""
        count = b.shape(self.value)[0]
        if is_expression(count):
            raise Unsupported("it reads a list that has one tensor for each iteration of a loop over an open dimension")
        parts = [select(b, self.value, 0, at) for at in range(count)]
        return [Box(part, owner=ENTRY) if self.depth == 1 else Stack(part, self.depth - 1).entries(b) for part in parts]


@dataclass(frozen=True, slots=True)
class Joined:
    """A list of `count` tensors of `rank` axes that lie in `value` one behind the other along the first axis.

    Their sizes depend on data.
    """

    value: Value
    rank: int
    count: int | Number


def stacked(b: Builder, entries: list[Any]) -> Stack:
    """Returns a list of tensors, or of lists of them, as a Stack.

    Raises Unsupported if it is empty, or has tensors of several shapes or dtypes, lists of several lengths, or others.
    """
    parts: list[Stack] = []
    for entry in entries:
        if isinstance(entry, Box):
            parts.append(Stack(entry.read(), 0))
        elif isinstance(entry, Stack):
            parts.append(entry)
        elif isinstance(entry, list):
            parts.append(stacked(b, entry))
        else:
            raise Unsupported(f"its list has a {type(entry).__name__}, not only tensors")
    if len({(part.depth, part.value.known_dtype) for part in parts}) != 1:
        raise Unsupported("its list has tensors of several dtypes, tensors beside lists, or nothing")
    shape = b.shape(parts[0].value)
    if not all(equal_shapes(b.shape(part.value), shape) for part in parts):
        raise Unsupported("its list has tensors of several shapes, or lists of several lengths")
    rows = [b.reshape(part.value, [1, *shape]) for part in parts]
    return Stack(rows[0] if len(rows) == 1 else b.add("concat", *rows, axis=0), parts[0].depth + 1)


def _stack(b: Builder, tensors: Stack, dim: int = 0) -> Box:
    axis = normalize_axis(dim, b.rank(tensors.value))
    _require_any(b.shape(tensors.value)[0])
    rest = list(range(1, b.rank(tensors.value)))
    return Box(b.transpose(tensors.value, [*rest[:axis], 0, *rest[axis:]]))


def _cat(b: Builder, tensors: Stack, dim: int = 0) -> Box:
    count, *shape = b.shape(tensors.value)
    _require_any(count)
    axis = normalize_axis(dim, len(shape))
    return Box(b.reshape(_stack(b, tensors, axis).read(), [*shape[:axis], count * shape[axis], *shape[axis + 1 :]]))


def _require_any(count: int | Number) -> None:
    """Raises Fault for a list without tensors, and NeedsShapeError if that is not known."""
    if isinstance(count, Number):
        raise NeedsShapeError(count.value)
    if count == 0:
        raise Fault("its list has no tensors")


def joined(kind: str, args: Sequence[Any]) -> Any:
    """Returns the result of a node whose first argument is a Joined.

    Raises Unsupported if it does more than join the tensors along their first axis, or count them.
    """
    tensors, *rest = args
    if kind == "aten::len":
        return tensors.count
    if kind != "aten::cat" or any(normalize_axis(dim, tensors.rank) for dim in rest):
        raise Unsupported(
            "it reads a list to which a loop has appended tensors whose sizes depend on data; "
            "treadle only joins them along their first axis"
        )
    _require_any(tensors.count)
    return Box(tensors.value)


def _length(b: Builder, tensors: Stack) -> int:
    return b.shape(tensors.value)[0]


def _get(b: Builder, tensors: Stack, at: Any) -> Box:
    return Box(select(b, tensors.value, 0, at), owner=ENTRY)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten::__getitem__": _get,
    "aten::cat": _cat,
    "aten::len": _length,
    "aten::stack": _stack,
}
"""Node kind -> its function, if its first argument is a Stack of tensors."""

OF_LISTS = frozenset({"aten::len"})
"""Those that apply to a Stack of lists too. An entry of one is a list that the script may change."""


def listed(b: Builder, env: dict[str, Any], args: list[Any]) -> list[Any]:
    """Returns `args` with lists of tensors in place of stacks, also in `env`. Raises Unsupported as `Stack.entries`."""
    lists = {id(held): held.entries(b) for held in args if isinstance(held, Stack)}
    if lists:
        env.update((name, lists[id(held)]) for name, held in env.items() if id(held) in lists)
    return [lists.get(id(held), held) for held in args]
