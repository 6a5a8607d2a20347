"""Loops whose values get further axes, and what is known of sizes behind loops."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import treadle
from tests.models.small import FLOAT, ModelWriter, node
from tests.models.test_data_loops import BOOL, INT64, assert_agrees, body
from treadle.compiled_plans import stages_of
from treadle.driver import BehindSizes
from treadle.errors import ShapeError
from treadle.open_plans import RestPlans


@pytest.mark.parametrize("behind_data", [False, True])
def test_a_loop_may_give_a_value_further_axes(behind_data: bool) -> None:
    """
    Each iteration adds an axis, also behind a size that depends on data; what follows takes any rank.
    """
    w = ModelWriter()
    first, flat = w.constant(np.array([0])), w.constant(np.array([-1]))
    x = "x"
    if behind_data:
        places = w.op("Squeeze", w.op("NonZero", w.op("Greater", "x", w.constant(np.float32(0)))), first)
        x = w.op("Gather", "x", places, axis=0)
    nodes = [
        node("Identity", ["on"], "again"),
        node("Unsqueeze", ["s", "zero"], "deeper"),
        node("Concat", ["deeper", "deeper"], "next", axis=0),
    ]
    w.nodes.append(node("Identity", [first], "zero"))
    y = w.op("Loop", "n", "", x, body=body(nodes, {"s": FLOAT}, "next"))
    results = {w.op("Exp", y): (FLOAT, None), w.op("Reshape", y, flat): (FLOAT, None), w.op("Shape", y): (INT64, None)}
    session = treadle.Session(w.model({"x": (FLOAT, [5]), "n": (INT64, [])}, results))
    given = np.array([0.5, -1, 1, 0.25, -2], np.float32)
    for n in (0, 1, 3, 2, 0):
        wanted = given[given > 0] if behind_data else given
        for _ in range(n):
            wanted = np.concatenate([wanted[None], wanted[None]])
        powers, elements, shape = session.run({"x": given, "n": np.array(n)}).values()
        np.testing.assert_allclose(powers, np.exp(wanted), rtol=1e-6)
        np.testing.assert_array_equal(elements, wanted.reshape(-1))
        np.testing.assert_array_equal(shape, wanted.shape)


def test_an_op_that_does_not_take_the_rank_a_loop_gives_is_named() -> None:
    w = ModelWriter()
    w.nodes.append(node("Identity", [w.constant(np.array([0]))], "zero"))
    nodes = [node("Identity", ["on"], "again"), node("Unsqueeze", ["s", "zero"], "next")]
    y = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "next"))
    w.nodes.append(node("Transpose", [y], "turned", perm=[1, 0]))
    session = treadle.Session(w.model({"x": (FLOAT, [5]), "n": (INT64, [])}, {"turned": (FLOAT, None)}))
    x = np.arange(5, dtype=np.float32)
    (found,) = session.run({"x": x, "n": np.array(1)}).values()
    np.testing.assert_array_equal(found, x[:, None])
    for n in (0, 2):
        with pytest.raises(ShapeError, match="node 'turned'"):
            session.run({"x": x, "n": np.array(n)})
    (found,) = session.run({"x": x, "n": np.array(1)}).values()
    np.testing.assert_array_equal(found, x[:, None])


def test_a_multiple_of_a_size_stays_one_behind_a_loop() -> None:
    """
    Rows of three times the batch, from a loop that data end, are added to others: nothing is assumed of either.
    """
    w = ModelWriter()
    for name, number in (("half", 0.5), ("least", 0.1)):
        w.nodes.append(node("Identity", [w.constant(np.float32(number))], name))
    nodes = [
        node("Mul", ["s", "half"], "next"),
        node("ReduceMax", ["next"], "top", keepdims=0),
        node("Greater", ["top", "least"], "again"),
        node("Concat", ["next", "next", "next"], "row", axis=0),
    ]
    values = {"i": INT64, "on": BOOL, "s": FLOAT, "again": BOOL, "next": FLOAT, "row": FLOAT}
    infos = [helper.make_tensor_value_info(name, kind, [] if kind != FLOAT else None) for name, kind in values.items()]
    loop = helper.make_node(
        "Loop", ["", "", "x"], ["last", "rows"], body=helper.make_graph(nodes, "body", infos[:3], infos[3:])
    )
    w.nodes.append(loop)
    y = w.op("Add", "rows", w.op("Concat", "x", "x", "x", axis=0))
    model = w.model({"x": (FLOAT, ["batch"])}, {y: (FLOAT, None)})
    session = treadle.Session(model)
    rng = np.random.default_rng(3)
    runs = [{"x": np.abs(rng.standard_normal(n)).astype(np.float32) + np.float32(0.2)} for n in (4, 7, 1, 5, 2)]
    assert_agrees(session, model, *runs[:1])
    compiles = session.compiles
    assert_agrees(session, model, *runs)
    assert session.compiles == compiles
    (plan,) = session.open_plans()
    compilers = [stage.compiler for stage in stages_of(plan.plan)]
    behind = [each.plans for each in compilers if isinstance(each, BehindSizes)]
    opened = [each for plans in behind if isinstance(plans, RestPlans) for each in plans._plans.compiled((y,))]
    assert opened
    assert [guard for each in opened for guard in each.facts.guards] == []
