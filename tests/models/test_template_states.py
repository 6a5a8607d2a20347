"""States of models whose graph is made for the dtypes and shapes of its inputs: they grow in place too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import treadle
from tests.models.test_states import ByHand, same
from tests.unit.frontends.tensorflow.graphs import Writer
from treadle.dtypes import f32
from treadle.graph.graph import Graph
from treadle.graph.template import Form, Template
from treadle.graph.value import Value

Array = np.ndarray[Any, Any]


def appending(forms: Sequence[Form]) -> Graph:
    """present = past and then x; y = present @ present.T"""
    graph = Graph("appending")
    past, x = (graph.input(name, *form) for name, form in zip(("past", "x"), forms, strict=True))
    present = graph.add("concat", [past, x], {"axis": 1}, outputs=[graph.value("present")]).output
    graph.outputs = [products(graph, present, "y"), present]
    return graph


def stacking(forms: Sequence[Form]) -> Graph:
    """present[i] = past[i] and then x; y = present[0] @ present[1].T"""
    graph = Graph("stacking")
    past, x = (graph.input(name, *form) for name, form in zip(("past", "x"), forms, strict=True))
    parts = [graph.add("gather", [past, graph.constant(np.array(i))], {"axis": 0}).output for i in range(2)]
    grown = [graph.add("concat", [part, x], {"axis": 1}).output for part in parts]
    wide = [graph.add("unsqueeze", [value, graph.constant(np.array([0]))]).output for value in grown]
    present = graph.add("concat", wide, {"axis": 0}, outputs=[graph.value("present")]).output
    graph.outputs = [products(graph, grown[0], "y", grown[1]), present]
    return graph


def products(graph: Graph, left: Value, name: str, right: Value | None = None) -> Value:
    swapped = graph.add("transpose", [right or left], {"perm": (0, 2, 1)}).output
    return graph.add("matmul", [left, swapped], outputs=[graph.value(name)]).output


def template(build: Callable[[Sequence[Form]], Graph], *outer: int, builds_open: bool = True) -> Template:
    inputs = (Value("past", f32, (*outer, 3, "past", 8)), Value("x", f32, (3, "new", 8)))
    return Template("appends", inputs, (Value("y", f32), Value("present", f32)), build, builds_open=builds_open)


def tensorflow() -> Any:
    """The same as `appending`."""
    w = Writer()
    past, x = w.input("past", (3, None, 8)), w.input("x", (3, None, 8))
    present = w.node("ConcatV2", past, x, w.constant(np.int32(1)), name="present", N=2)
    w.node("BatchMatMulV2", present, present, name="y", adj_x=False, adj_y=True)
    w.node("Identity", present, name="present_out")
    return w.graph


@pytest.mark.parametrize(
    ("model", "output"),
    [
        (lambda: template(appending), "present"),
        (lambda: template(stacking, 2), "present"),
        (tensorflow, "present_out"),
    ],
    ids=["template", "stack", "tensorflow"],
)
def test_a_template_appends_in_place(model: Callable[[], Any], output: str) -> None:
    """70 steps have the bits of runs that take all of the past, and compile nothing after the first ones."""
    session = treadle.Session(model())
    rng = np.random.default_rng(0)
    pairs = {"past": output}
    with session.state(pairs) as state:
        assert state.appended == ("past",)
        by_hand = ByHand(session, pairs)
        for step in range(70):
            x = rng.standard_normal((3, 5 if step == 0 else 1, 8)).astype(np.float32)
            same(state.run({"x": x}), by_hand.run({"x": x}))
            if step == 2:
                compiles = session.compiles
        same(state.arrays(), by_hand.kept)
        assert session.compiles == compiles


def test_a_template_without_open_sizes_passes_its_state_on() -> None:
    """There is no graph before a run, so what it returns is the input of the next."""
    session = treadle.Session(template(appending, builds_open=False))
    with session.state({"past": "present"}) as state:
        assert state.appended == ()
        for step in range(3):
            assert state.run({"x": np.ones((3, 1, 8), np.float32)})["y"].shape == (3, step + 1, step + 1)
