"""Takes inputs apart that stack the pasts of several layers, or keys and values, so that each part grows by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import normalize_axis
from treadle.graph.value import Value
from treadle.passes.append_in_place import appending_node, only_appended_to
from treadle.passes.match import produced_by, source
from treadle.passes.specialize import copy_graph

Index = tuple[int, ...]
"""Where a part lies on the axes that stack."""


class Stacked(NamedTuple):
    """An output that stacks what is appended to the parts of an input, which stacks them likewise.

    The parts lie along `axes`, of `sizes`, and grow along `axis`.
    """

    input: str
    output: str
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    axis: int

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The names of the inputs and outputs that take the place of the parts."""
        places = (str(list(index)) for index in _indices(self.sizes))
        return [(f"{self.input}{place}", f"{self.output}{place}") for place in places]


class _Stack(NamedTuple):
    """Values stacked along `axes` of the result, in the order of their indices."""

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    values: list[Value]


def stacked_pairs(graph: Graph) -> list[Stacked]:
    """Return the outputs of `graph` that append to all parts of an input, whose elements nothing else reads."""
    inputs = {value: _selected(value) for value in graph.inputs if value.shape is not None}
    found = []
    for output in graph.outputs:
        for kept, selected in inputs.items():
            stack = _stack_of(output, tuple(range(len(kept.shape or ()))))
            axis = _growing_axis(kept, selected, stack)
            returned = any(value in graph.outputs for value, _ in selected)
            if axis is not None and not returned and graph.outputs.count(output) == 1:
                found.append(Stacked(kept.name, output.name, stack.axes, stack.sizes, axis))
    return found


def unstack_states(graph: Graph, pairs: Sequence[Stacked]) -> Graph:
    """%key = gather(%past, 0); %keys = concat(%key, %new); %present = concat(unsqueeze(%keys), unsqueeze(%values))
    ->  %keys = concat(%past[0], %new); return %keys

    A copy of `graph`. Each input and output of `pairs`, which are some of `stacked_pairs`, has its parts in its place.
    """
    changed = copy_graph(graph)
    for pair in pairs:
        (kept,) = (value for value in changed.inputs if value.name == pair.input)
        (output,) = (value for value in changed.outputs if value.name == pair.output)
        assert kept.shape is not None, "stacked inputs have a rank"
        stack = _stack_of(output, tuple(range(len(kept.shape))))
        shape = tuple(dim for axis, dim in enumerate(kept.shape) if axis not in pair.axes)
        parts = [changed.value(name, kept.dtype, shape) for name, _ in pair.parts]
        at = changed.inputs.index(kept)
        changed.inputs[at : at + 1] = parts
        by_index = dict(zip(_indices(pair.sizes), parts, strict=True))
        for value, index in list(_selected(kept)):
            if set(index) == set(pair.axes):
                changed.replace_uses(value, by_index[tuple(index[axis] for axis in pair.axes)])
        at = changed.outputs.index(output)
        grown = [changed.value(name, output.dtype) for _, name in pair.parts]
        for value, result in zip(stack.values, grown, strict=True):
            changed.add("identity", [value], name=result.name, outputs=[result])
        changed.outputs[at : at + 1] = grown
        changed.drop_unread()
        _give_shape(changed, pair, kept, parts)
    return changed


def _give_shape(graph: Graph, pair: Stacked, kept: Value, parts: list[Value]) -> None:
    """Lets what reads the shape of `kept` take it from the first of its parts, and all others from a stack of them.

    Axes of a stack that is made could not be told from others along which the model does more than append.
    """
    left = [axis for axis in range(len(kept.shape or ())) if axis not in pair.axes]
    order = np.array([(left + list(pair.axes)).index(axis) for axis in range(len(kept.shape or ()))])
    first: list[Node] = []
    readers = [node for node in kept.users if node.op == "shape"]
    for node in readers:
        own = graph.make("shape", [parts[0]], name=node.name)
        sizes = graph.constant(np.array(pair.sizes, np.int64), f"{node.name}.sizes")
        joined = graph.make("concat", [own.output, sizes], {"axis": 0}, name=node.name)
        wanted = graph.constant(order[node.attrs.get("start", 0) : node.attrs.get("end")], f"{node.name}.order")
        ordered = graph.make("gather", [joined.output, wanted], {"axis": 0}, name=node.name, outputs=node.outputs)
        first += [own, joined, ordered]
    graph.rebuild([*first, *(node for node in graph.nodes if node not in readers)])
    graph.drop_unread()
    if kept.users:
        graph.rebuild([*_stacking(graph, pair, kept, parts), *graph.nodes])


def _stacking(graph: Graph, pair: Stacked, kept: Value, parts: list[Value]) -> Iterator[Node]:
    """The nodes that make `kept` of its parts, for those that read its shape."""
    inner = {axis for axis in range(len(kept.shape or ())) if axis not in pair.axes}
    values = parts
    for axis, size in zip(reversed(pair.axes), reversed(pair.sizes), strict=True):
        inner.add(axis)
        place = sorted(inner).index(axis)
        where = graph.constant(np.array([place]), f"{kept.name}.axis")
        wide = [graph.make("unsqueeze", [value, where], name=value.name) for value in values]
        results = [kept] if size == len(values) else [graph.value(kept.name) for _ in range(len(values) // size)]
        yield from wide
        for number, result in enumerate(results):
            operands = [node.output for node in wide[number * size : (number + 1) * size]]
            yield graph.make("concat", operands, {"axis": place}, name=kept.name, outputs=[result])
        values = results


def _growing_axis(kept: Value, selected: list[tuple[Value, dict[int, int]]], stack: _Stack) -> int | None:
    """The axis along which the values of `stack` append to the parts of `kept`; None if one of them does not."""
    if not stack.axes or kept.shape is None or stack.sizes != tuple(kept.shape[axis] for axis in stack.axes):
        return None
    left = [axis for axis in range(len(kept.shape)) if axis not in stack.axes]
    nodes, axes = [], set()
    for index, value in zip(_indices(stack.sizes), stack.values, strict=True):
        node = appending_node(value)
        wanted = dict(zip(stack.axes, index, strict=True))
        if node is None or (source(node.operand(0)), wanted) not in selected:
            return None
        nodes.append(node)
        axes.add(left[normalize_axis(node.attrs["axis"], len(left))])
    return axes.pop() if len(axes) == 1 and only_appended_to(kept, nodes) else None


def _stack_of(value: Value, axes: tuple[int, ...]) -> _Stack:
    """What `value` stacks, whose axes are `axes` of the result; itself where it is no concatenation of single
    elements."""
    node = produced_by(source(value), "concat")
    axis = None if node is None else _front(node.attrs["axis"], len(axes))
    if node is not None and axis is not None:
        inner = axes[:axis] + axes[axis + 1 :]
        parts = [_unsqueezed_along(operand, axis, len(axes)) for operand in node.inputs]
        stacks = [_stack_of(part, inner) for part in parts if part is not None]
        if len(stacks) == len(parts) and len({(each.axes, each.sizes) for each in stacks}) == 1:
            values = [value for each in stacks for value in each.values]
            return _Stack((axes[axis], *stacks[0].axes), (len(parts), *stacks[0].sizes), values)
    return _Stack((), (), [value])


def _unsqueezed_along(value: Value | None, axis: int, rank: int) -> Value | None:
    """What `value`, of `rank` axes, is without its `axis`; None if it was not put there by an unsqueeze."""
    node = None if value is None else produced_by(source(value), "unsqueeze")
    return node.operand(0) if node is not None and _only_axis(node, rank) == axis else None


def _selected(kept: Value) -> list[tuple[Value, dict[int, int]]]:
    """The values that are elements of `kept` along some of its axes, with the index on each of these."""
    assert kept.shape is not None, "the rank of an input is known"
    found: list[tuple[Value, dict[int, int]]] = []
    left: list[tuple[Value, dict[int, int]]] = [(kept, {})]
    while left:
        value, index = left.pop()
        axes = [axis for axis in range(len(kept.shape)) if axis not in index]
        for node in value.users:
            if node.op == "identity":
                left.append((node.output, index))
                continue
            for result, axis, number in _picks(node, value, len(axes)):
                size = kept.shape[axes[axis]]
                if isinstance(size, int) and -size <= number < size:
                    left.append((result, {**index, axes[axis]: number % size}))
                    found.append(left[-1])
    return found


def _picks(node: Node, value: Value, rank: int) -> Iterator[tuple[Value, int, int]]:
    """The results of `node`, or of a squeeze behind it, that are one element of `value` along an axis: the axis and the
    element's number."""
    if node.inputs[0] is not value:
        return
    if node.op == "gather":
        indices = node.operand(1).data
        if indices is not None and indices.ndim == 0:
            yield node.output, normalize_axis(node.attrs["axis"], rank), int(indices)
    for piece, axis, number in _pieces(node, rank):
        yield from ((result, axis, number) for result in _squeezed(piece, axis, rank))


def _pieces(node: Node, rank: int) -> Iterator[tuple[Value, int, int]]:
    """The results of `node` that may be one element of its operand, of `rank` axes, along an axis that they keep."""
    constants = [None if each is None else each.data for each in node.inputs[1:]]
    if node.op == "gather" and constants[0] is not None and constants[0].size == 1:
        yield node.output, normalize_axis(node.attrs["axis"], rank), constants[0].item()
    elif node.op == "split":
        axis = normalize_axis(node.attrs["axis"], rank)
        yield from ((piece, axis, number) for number, piece in enumerate(node.outputs))
    elif node.op == "slice" and len(constants) > 2:
        numbers = [None if each is None or each.size != 1 else each.item() for each in constants]
        start, end, along, *step = numbers
        if start is not None and end == start + 1 and along is not None and step in ([], [1]):
            yield node.output, normalize_axis(along, rank), start


def _squeezed(value: Value, axis: int, rank: int) -> list[Value]:
    """What `value`, of `rank` axes, is without its `axis`."""
    return [node.output for node in value.users if node.op == "squeeze" and _only_axis(node, rank) == axis]


def _only_axis(node: Node, rank: int) -> int | None:
    """The axis of `rank` that a squeeze or unsqueeze names; None if it is not a single constant one."""
    axes = node.inputs[1].data if len(node.inputs) > 1 and node.inputs[1] is not None else None
    return _front(axes.item(), rank) if axes is not None and axes.size == 1 else None


def _front(axis: int, rank: int) -> int | None:
    """`axis` counted from the front; None if there is none in `rank` axes."""
    return axis % rank if -rank <= axis < rank else None


def _indices(sizes: Sequence[int]) -> Iterator[Index]:
    """All indices on axes of `sizes`, in order."""
    return product(*map(range, sizes))
