"""Counts the iterations of loops whose condition compares a counter: then it is known how much they stack."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treadle import dtypes
from treadle.graph.dim import maximum, minimum
from treadle.graph.graph import Graph, link
from treadle.graph.node import Node
from treadle.graph.order import needed
from treadle.graph.value import Value
from treadle.ops.loop import LoopForm, form_of
from treadle.ops.sizes import add_sizes, known_value
from treadle.passes.base import PassContext
from treadle.passes.fold_constants import FoldConstants
from treadle.passes.match import produced_by, source
from treadle.passes.specialize import copy_graph

_EXACT = 1 << 24
"""Counters below this are exact in f32, as which some exporters compare them."""

_COMPARISONS = {"lt": (0, 1), "le": (0, 1), "gt": (1, 0), "ge": (1, 0)}
"""The operands of comparisons: the one that is the smaller if they are true, then the other."""


class CountLoops:
    """%n = loop(absent, true, 0, 10, body(%i, %c, %end): %d = add(%c, 1); return lt(%d, %end), %d, %end)  ->
    %n = loop(10, true, 0, 10, body(...): return true, ...)

    While loops of other systems become such ones: a recurrent layer over the steps of a text, for example.
    """

    name = "count_loops"

    def run(self, graph: Graph, context: PassContext) -> bool:
        """True if the number of iterations of a loop became known. Sizes that follow from it are inferred."""
        changed = False
        while _count_all(graph):
            changed = True
            FoldConstants().run(graph, context)  # what another loop compares may follow from this one's results
        return changed


class _Counter(NamedTuple):
    """A number that is `first + step * j` in iteration `j`."""

    first: int
    step: int


def _count_all(graph: Graph) -> bool:
    """Count each loop that can be; True if there is one that was not counted before."""
    counted = [_count(graph, node) for node in list(graph.nodes) if node.op == "loop"]
    return any(counted)


def _count(graph: Graph, node: Node) -> bool:
    form = form_of(node.attrs)
    body: Graph = node.attrs["body"]
    first = None if node.inputs[1] is None else known_value(node.operand(1))
    if body.outputs[0].is_constant or (node.inputs[1] is not None and (first is None or not first.reshape(-1)[0])):
        return False
    made = _made(node, form, body.outputs[0])
    if made is None:
        return False
    if node.inputs[0] is not None:
        limit = _number(node.operand(0))
        if limit is None:
            return False
        made = minimum(made, limit)
    count = add_sizes(graph, np.array(made, object), dtypes.i64, "iterations")
    if isinstance(count, Node):
        link(count)
        graph.nodes.insert(graph.nodes.index(node), count)
        count = count.output
    body = copy_graph(body)
    body.outputs[0] = body.constant(np.array(True), "again")
    body.drop_unread()
    node.attrs = {**node.attrs, "body": body}
    graph.set_input(node, 0, count)
    return True


def _made(node: Node, form: LoopForm, again: Value) -> Any:
    """The iterations that are made if the first one is, as `again` ends them; None if it is not known."""
    counters = _Counters(node, form, again)
    ends: list[Any] = []
    seen: set[Value] = set()
    pending = [again]
    while pending:
        value = pending.pop()
        producer = value.producer
        if value in seen:
            continue
        seen.add(value)
        if producer is not None and producer.op in ("identity", "and"):
            pending += [operand for operand in reversed(producer.inputs) if operand is not None]
            continue
        end = None if producer is None or producer.op not in _COMPARISONS else _made_until(counters, producer)
        if end is None:
            return None
        ends.append(end)
    return minimum(*ends)


def _made_until(counters: _Counters, comparison: Node) -> Any:
    """The iterations that are made if the first one is, until a `comparison` of the body is false; None as above."""
    smaller, larger = (comparison.operand(side) for side in _COMPARISONS[comparison.op])
    counter, end = counters.of(smaller), counters.of(larger)
    if counter is None or end is None or counter.step <= 0 or end.step != 0:
        return None
    past = end.first + (comparison.op in ("le", "ge"))
    is_small = past + counter.step < _EXACT and counter.first > -_EXACT
    if (smaller.known_dtype.is_float or larger.known_dtype.is_float) and not is_small:
        return None
    return 1 + maximum(-((counter.first - past) // counter.step), 0)


class _Counters:
    """What values of a body are in each iteration of a loop, as far as they are counters or do not change.

    The nodes that `again` depends on are looked at once each, from front to back: sums may be long, and read one
    another several times.
    """

    def __init__(self, node: Node, form: LoopForm, again: Value) -> None:
        body: Graph = node.attrs["body"]
        behind = needed([again])
        self._found: dict[Value, _Counter | None] = {}
        for number, value in enumerate(body.inputs):
            if not behind.isdisjoint(value.users):
                self._found[value] = _input(node, form, number)
        for each in body.nodes:
            if each in behind and len(each.outputs) == 1:
                self._found[each.output] = self._made_by(each)

    def of(self, value: Value) -> _Counter | None:
        """What `value` is, if it is a whole number that grows evenly, or does not change."""
        known = _number(value)
        return self._found.get(value) if known is None else _Counter(known, 0)

    def _made_by(self, node: Node) -> _Counter | None:
        if node.op in ("identity", "squeeze", "unsqueeze", "cast"):
            found = self.of(node.operand(0))
            return found if found is None or node.op != "cast" or _keeps(node) else None
        if node.op not in ("add", "sub"):
            return None
        one, other = (self.of(node.operand(side)) for side in (0, 1))
        if one is None or other is None:
            return None
        sign = 1 if node.op == "add" else -1
        return _Counter(one.first + sign * other.first, one.step + sign * other.step)


def _input(node: Node, form: LoopForm, number: int) -> _Counter | None:
    """What the input `number` of the body is in each iteration."""
    if number == 0:
        return _Counter(0, 1)
    operand = node.inputs[1 + number]
    first = None if operand is None else _number(operand)
    if first is None or form.carried < number <= form.carried + form.sliced:
        return None
    if number > form.carried:
        return _Counter(first, 0)
    step = _step(node.attrs["body"], number)
    return None if step is None else _Counter(first, step)


def _step(body: Graph, number: int) -> int | None:
    """How much the carried value at input `number` of `body` grows in each iteration, if that is always the same."""
    start, value = body.inputs[number], body.outputs[number]
    step = 0
    while (value := source(value)) is not start:
        producer = produced_by(value, "add", "sub")
        if producer is None:
            return None
        left, right = (_number(producer.operand(side)) for side in (0, 1))
        if right is not None:
            step += right if producer.op == "add" else -right
            value = producer.operand(0)
        elif left is not None and producer.op == "add":
            step += left
            value = producer.operand(1)
        else:
            return None
    return step


def _keeps(cast: Node) -> bool:
    """Whether a cast gives the whole numbers that it gets, if they are small."""
    return all(
        (dtype.is_integer and dtype.size >= 4) or dtype in (dtypes.f32, dtypes.f64)
        for dtype in (cast.operand(0).known_dtype, cast.output.known_dtype)
    )


def _number(value: Value) -> Any:
    """The whole number, perhaps an expression of sizes, that `value` holds; None if it is no such value."""
    array = known_value(value)
    if array is None or array.size != 1 or value.dtype is None or not value.dtype.is_integer:
        return None
    number = array.reshape(-1)[0]
    return int(number) if isinstance(number, np.integer) else number
