"""Keeps channels in blocked layout where they are only moved between blocked values."""

from __future__ import annotations

from itertools import chain

from treadle.dtypes import f32, f64
from treadle.graph.dim import is_expression
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked
from treadle.graph.node import Node
from treadle.graph.shape import StaticShape, equal_shapes, normalize_axis
from treadle.graph.value import Value
from treadle.passes.base import PassContext
from treadle.passes.lower.pick_channels import can_pick
from treadle.passes.lower.slice import constant_ranges

Channels = tuple[tuple[Value, int], ...]
"""For each channel of a row-major value, the blocked value and the channel of it that it equals."""

_MOST_CHANNELS = 4096
"""The largest number of channels that is tracked, and that a kernel picks."""


class PickChannels:
    """%p = reorder(%a: c16); %t = concat(%p, ..); %b: c16 = reorder(%t)  ->  %b: c16 = pick_channels(%a, ..)

    Between the reorders may stand concat and slice along the channels and shuffles of channels (reshape, transpose,
    reshape), any number of them: each blocked value that comes out is made of the blocked values that went in. They are
    of f32 or f64.
    """

    name = "pick_channels"

    def run(self, graph: Graph, context: PassContext) -> bool:
        known: dict[Value, Channels] = {}
        nodes: list[Node] = []
        for node in graph.nodes:
            made = _picked(graph, node, known)
            nodes.append(made or node)
            channels = None if made is not None else _channels(node, known)
            if channels is not None and len(channels) <= _MOST_CHANNELS:
                known[node.output] = channels
        changed = nodes != graph.nodes
        if changed:
            graph.rebuild(nodes)
            graph.drop_unread()
        return changed


def _picked(graph: Graph, node: Node, known: dict[Value, Channels]) -> Node | None:
    """Returns the replacement of `node`, a reorder whose channels all come from blocked values."""
    if node.op != "reorder" or node.operand(0) not in known:
        return None
    x, layout = node.operand(0), node.output.layout
    sources = list(dict.fromkeys(source for source, _ in known[x]))
    picks = tuple((sources.index(source), channel) for source, channel in known[x])
    if not isinstance(layout, Blocked) or any(source.layout != layout for source in sources):
        return None
    mover = x.producer
    if mover is None or not can_pick(picks, layout.block):
        return None
    made = graph.make("pick_channels", sources, {"picks": picks}, name=mover.name, outputs=[node.output])
    made.take_over([mover])
    return made


def _channels(node: Node, known: dict[Value, Channels]) -> Channels | None:
    """The channels of the row-major result of `node`; None if they are not those of blocked values."""
    if node.op == "reorder":
        x = node.operand(0)
        if node.output.layout is not None or x.layout is None or x.dtype not in (f32, f64):
            return None
        if is_expression(x.static_shape[1]):
            return None
        return tuple((x, channel) for channel in range(x.static_shape[1]))
    if node.op == "concat" and normalize_axis(node.attrs["axis"], len(node.output.static_shape)) == 1:
        parts = [known[value] for value in node.inputs if value in known]
        return tuple(chain.from_iterable(parts)) if len(parts) == len(node.inputs) else None
    if node.op == "slice":
        return _sliced(node, known)
    return _shuffled(node, known) if node.op == "reshape" else None


def _sliced(node: Node, known: dict[Value, Channels]) -> Channels | None:
    """The channels of a slice along the channels alone."""
    x = node.operand(0)
    ranges = constant_ranges(node) if x in known else None
    if ranges is None:
        return None
    whole = [equal_shapes(found, (0, 1, size)) for found, size in zip(ranges, x.static_shape, strict=True)]
    first, step, count = ranges[1]
    if not all((whole[0], *whole[2:])) or any(map(is_expression, ranges[1])):
        return None
    return tuple(known[x][first + step * number] for number in range(count))


def _shuffled(node: Node, known: dict[Value, Channels]) -> Channels | None:
    """The channels of reshape(transpose(reshape(%x))) where group and channel-in-group are swapped."""
    transpose = node.operand(0).producer
    split = transpose.operand(0).producer if transpose is not None and transpose.op == "transpose" else None
    if transpose is None or split is None or split.op != "reshape" or split.operand(0) not in known:
        return None
    x, shape = split.operand(0), split.output.static_shape
    perm = transpose.attrs["perm"]
    swapped = perm is not None and tuple(perm) == (0, 2, 1, *range(3, len(shape)))
    if not swapped or not _splits_channels(x.static_shape, shape) or not equal_shapes(node.output.shape, x.shape):
        return None
    groups, each = shape[1:3]
    if is_expression(groups) or is_expression(each):
        return None
    return tuple(known[x][group * each + channel] for channel in range(each) for group in range(groups))


def _splits_channels(whole: StaticShape, split: StaticShape) -> bool:
    """Whether a reshape from `whole` to `split` makes two dimensions of the channels and nothing else."""
    return len(split) == len(whole) + 1 and equal_shapes((whole[0], *whole[2:]), (split[0], *split[3:]))
