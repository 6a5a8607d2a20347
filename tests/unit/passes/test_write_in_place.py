"""Outputs that are written into the memory of the inputs that they replace elements of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from treadle.codegen.target import detect
from treadle.dtypes import f32, i64
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.graph.verify import verify
from treadle.passes.base import PassContext
from treadle.passes.make_plan import make_plan
from treadle.passes.pipeline import optimize
from treadle.passes.specialize import specialize
from treadle.passes.write_in_place import Written, write_in_place, written_pairs


def writes(
    change: Callable[[Graph, Value, Value], None] | None = None, *, room: int | None = None, reduction: str = "none"
) -> Graph:
    """present = past, with rows of zeros behind it if there is `room`, in which rows are x * 2; y = exp(present)."""
    graph = Graph("writes")
    past, x = graph.input("past", f32, (12, 8)), graph.input("x", f32, (3, 8))
    places, more = graph.input("places", i64, (3, 1)), graph.input("more", i64, (1,))
    new = graph.add("mul", [x, graph.constant(np.float32(2))], name="new").output
    base = past
    if room is not None:
        known = [graph.constant(np.array(each, np.int64)) for each in ([0, room], [0])]
        widths = graph.add("concat", [known[0], more, known[1]], {"axis": 0}).output
        base = graph.add("pad", [past, widths], {"mode": "constant"}).output
    attrs = {"reduction": reduction}
    present = graph.add("scatter_nd", [base, places, new], attrs, name="put", outputs=[graph.value("present")]).output
    y = graph.add("exp", [present], outputs=[graph.value("y")]).output
    graph.outputs = [present, y]
    if change is not None:
        change(graph, past, present)
    return graph


def behind_identities(graph: Graph, past: Value, present: Value) -> None:
    graph.outputs[0] = graph.add("identity", [present], outputs=[graph.value("renamed")]).output


def with_sizes(graph: Graph, past: Value, present: Value) -> None:
    graph.outputs.append(graph.add("shape", [past]).output)


@pytest.mark.parametrize(("change", "room"), [(None, None), (None, 0), (behind_identities, 0), (with_sizes, None)])
def test_only_the_updates_are_written(change: Callable[[Graph, Value, Value], None] | None, room: int | None) -> None:
    """No call reads or copies the past, and the caller gives the memory of the output."""
    graph = writes(change, room=room)
    pairs = written_pairs(graph)
    assert pairs == [Written("past", graph.outputs[0].name)]

    changed = write_in_place(graph, pairs)
    verify(changed)
    fixed = specialize(changed, {value.name: value.static_shape for value in changed.inputs})
    plan = make_plan(optimize(fixed, PassContext(detect())), detect(), "fast")
    past = plan.inputs[0]
    assert [port.is_given for port in plan.outputs][:2] == [True, False]
    assert [call.op for call in plan.calls].count("scatter_nd") == 1
    assert all(value.name != past.name for call in plan.calls for value in call.reads)


def another_reader(graph: Graph, past: Value, present: Value) -> None:
    graph.outputs.append(graph.add("exp", [past]).output)


def twice(graph: Graph, past: Value, present: Value) -> None:
    graph.outputs.append(present)


def moved_elsewhere(graph: Graph, past: Value, present: Value) -> None:
    graph.outputs.append(graph.add("transpose", [past], {"perm": (1, 0)}).output)


@pytest.mark.parametrize(
    "graph", [writes(another_reader), writes(twice), writes(moved_elsewhere), writes(room=1), writes(reduction="add")]
)
def test_what_else_the_past_is_for_keeps_it(graph: Graph) -> None:
    """Elements that anything else reads, or that are combined with updates, are copied; so is a pad of known size."""
    assert written_pairs(graph) == []
