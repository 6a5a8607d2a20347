"""Open dimensions along which a graph only appends to its inputs, such as the length of a decoder's past."""

from __future__ import annotations

from collections.abc import Callable

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import normalize_axis
from treadle.graph.value import Value


def appended_dims(graph: Graph) -> set[str]:
    """The names of open dimensions that inputs of `graph` have only along axes on which they are concatenated.

    Such a size is often 0: nothing is kept before the first step of a decoder. All other sizes are at least 1 in
    ordinary runs, which lowering makes use of.
    """
    found: dict[str, bool] = {}
    for value in graph.inputs:
        shape = value.shape or ()
        for axis, dim in enumerate(shape):
            if isinstance(dim, str):
                found[dim] = found.get(dim, True) and _is_appended_to(value, axis, len(shape))
    return {name for name, appended in found.items() if appended}


def _is_appended_to(value: Value, axis: int, rank: int) -> bool:
    """Whether all that nodes read of `value`, of `rank` axes, is its shape and what they append to on `axis`."""
    return all(_appends(node, value, axis, rank) for node in value.users)


def _appends(node: Node, value: Value, axis: int, rank: int) -> bool:
    if node.op in ("shape", "size"):
        return True
    if node.op == "concat":
        return normalize_axis(node.attrs["axis"], rank) == axis
    if node.inputs[0] is not value or node.op not in _FOLLOWED:
        return False
    place = _FOLLOWED[node.op](node, axis, rank)
    return place is not None and all(_is_appended_to(result, *place) for result in node.outputs)


def _transposed(node: Node, axis: int, rank: int) -> tuple[int, int] | None:
    return tuple(node.attrs["perm"]).index(axis), rank


def _split(node: Node, axis: int, rank: int) -> tuple[int, int] | None:
    return None if normalize_axis(node.attrs["axis"], rank) == axis else (axis, rank)


def _gathered(node: Node, axis: int, rank: int) -> tuple[int, int] | None:
    indices, picked = node.operand(1), normalize_axis(node.attrs["axis"], rank)
    if indices.data is None or picked == axis:
        return None
    more = indices.data.ndim - 1
    return axis + (more if picked < axis else 0), rank + more


def _sliced(node: Node, axis: int, rank: int) -> tuple[int, int] | None:
    given = node.inputs[3] if len(node.inputs) > 3 else None
    starts = node.operand(1).shape
    if given is not None and given.data is not None:
        cut = {normalize_axis(each, rank) for each in given.data.reshape(-1).tolist()}
    elif given is None and starts is not None and isinstance(starts[0], int):
        cut = set(range(starts[0]))
    else:
        return None
    return None if axis in cut else (axis, rank)


def _squeezed(node: Node, axis: int, rank: int) -> tuple[int, int] | None:
    gone = _axes(node, rank)
    if gone is None or axis in gone:
        return None
    return axis - sum(each < axis for each in gone), rank - len(gone)


def _unsqueezed(node: Node, axis: int, rank: int) -> tuple[int, int] | None:
    axes = _axes(node, rank)
    if axes is None:
        return None
    wide = rank + len(axes)
    return [each for each in range(wide) if each not in axes][axis], wide


def _axes(node: Node, rank: int) -> set[int] | None:
    """The axes that a squeeze or unsqueeze of `rank` axes names; None if they are not constant."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is None or given.data is None:
        return None
    numbers = given.data.reshape(-1).tolist()
    return {normalize_axis(each, rank + (len(numbers) if node.op == "unsqueeze" else 0)) for each in numbers}


_FOLLOWED: dict[str, Callable[[Node, int, int], tuple[int, int] | None]] = {
    "transpose": _transposed,
    "split": _split,
    "gather": _gathered,
    "slice": _sliced,
    "squeeze": _squeezed,
    "unsqueeze": _unsqueezed,
}
"""Where an axis of the first operand is in the results of an op, and how many axes these have; None if nowhere."""
