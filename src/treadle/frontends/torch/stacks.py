"""Lists whose tensors lie stacked in one value, as a loop makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.shape import select
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import is_expression
from treadle.graph.shape import normalize_axis
from treadle.graph.value import Value


@dataclass(frozen=True, slots=True)
class Stack:
    """A list of as many tensors as the first axis of `value` is long."""

    value: Value

    def entries(self, b: Builder) -> list[Box]:
        """Returns the tensors. Raises Unsupported if their number is not known."""
        count = b.shape(self.value)[0]
        if is_expression(count):
            raise Unsupported("it reads a list that has one tensor for each iteration of a loop over an open dimension")
        return [Box(select(b, self.value, 0, at)) for at in range(count)]


def _stack(b: Builder, tensors: Stack, dim: int = 0) -> Box:
    axis = normalize_axis(dim, b.rank(tensors.value))
    rest = list(range(1, b.rank(tensors.value)))
    return Box(b.transpose(tensors.value, [*rest[:axis], 0, *rest[axis:]]))


def _cat(b: Builder, tensors: Stack, dim: int = 0) -> Box:
    count, *shape = b.shape(tensors.value)
    axis = normalize_axis(dim, len(shape))
    return Box(b.reshape(_stack(b, tensors, axis).read(), [*shape[:axis], count * shape[axis], *shape[axis + 1 :]]))


def _length(b: Builder, tensors: Stack) -> int:
    return b.shape(tensors.value)[0]


def _get(b: Builder, tensors: Stack, at: Any) -> Box:
    return Box(select(b, tensors.value, 0, at))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten::__getitem__": _get,
    "aten::cat": _cat,
    "aten::len": _length,
    "aten::stack": _stack,
}
"""Node kind -> its function, if its first argument is a Stack."""


def listed(b: Builder, env: dict[str, Any], args: list[Any]) -> list[Any]:
    """Returns `args` with lists of tensors in place of stacks, also in `env`. Raises Unsupported as `Stack.entries`."""
    lists = {id(held): held.entries(b) for held in args if isinstance(held, Stack)}
    if lists:
        env.update((name, lists[id(held)]) for name, held in env.items() if id(held) in lists)
    return [lists.get(id(held), held) for held in args]
