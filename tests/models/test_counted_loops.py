"""Loops whose condition compares a counter, as exporters write while loops: they run as those with a limit do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from tests.models.small import FLOAT, ModelWriter, node
from tests.models.test_loops import Array, assert_agrees, assert_native, body

BOOL, INT32, INT64 = TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64
SIZE = 4
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": lambda counter, end: end > counter,
    "GreaterOrEqual": lambda counter, end: end >= counter,
}


def while_loop(
    comparison: str = "Less", start: int = 0, step: int = 1, most: int | None = None, *, shape: tuple[Any, ...]
) -> onnx.ModelProto:
    """While the counter compares with the number of rows of x, s = tanh(s @ weights + counter); s is stacked.

    The counter, an int32, is compared as a float, the end and the weights are carried. `most` is a second end.
    """
    w = ModelWriter()
    weights = w.random(SIZE, SIZE)
    end = w.op("Cast", w.op("Gather", w.op("Shape", "x"), w.constant(np.array(0))), to=INT32)
    first = w.constant(np.array(start, np.int32))
    outside = ["first", "last"] if comparison.startswith("Less") else ["last", "first"]
    casts = {"first": w.op("Cast", first, to=FLOAT), "last": w.op("Cast", end, to=FLOAT)}
    begins = w.op(comparison, *(casts[name] for name in outside))
    inside = ["compared", "stop"] if comparison.startswith("Less") else ["stop", "compared"]
    nodes = [
        node("MatMul", ["s", "m"], "product"),
        node("Cast", ["counter"], "number", to=FLOAT),
        node("Add", ["product", "number"], "sum"),
        node("Tanh", ["sum"], "state"),
        node("Constant", [], "step", value=helper.make_tensor("step", INT32, [], [step])),
        node("Add", ["counter", "step"], "next"),
        node("Cast", ["next"], "compared", to=FLOAT),
        node("Cast", ["end"], "stop", to=FLOAT),
        node(comparison, inside, "goes"),
        node("Identity", ["end"], "end_again"),
        node("Identity", ["state"], "stacked"),
    ]
    again = "goes"
    if most is not None:
        nodes += [
            node("Constant", [], "most", value=helper.make_tensor("most", INT64, [], [most - 1])),
            node("Less", ["i", "most"], "few"),
            node("And", ["goes", "few"], "both"),
        ]
        again = "both"
    inputs: dict[str, tuple[int, list[Any] | None]] = {
        "i": (INT64, []), "on": (BOOL, []), "counter": (INT32, []), "s": (FLOAT, ["rows", SIZE]), "end": (INT32, []),
        "m": (FLOAT, [SIZE, SIZE]),
    }  # fmt: skip
    loop = body(nodes, inputs, again, "next", "state", "end_again", "m", "stacked")
    y = w.op("Loop", "", begins, first, "x", end, weights, outputs=5, body=loop)
    results = {w.op("Abs", f"{y}_1"): (FLOAT, None), w.op("Exp", f"{y}_4"): (FLOAT, None), f"{y}_2": (INT32, None)}
    return w.model({"x": (FLOAT, list(shape))}, results)


def wanted(
    model: onnx.ModelProto, x: Array, comparison: str = "Less", start: int = 0, step: int = 1, most: int | None = None
) -> tuple[Array, Array, Array]:
    """What `while_loop` computes."""
    (weights,) = (numpy_helper.to_array(t) for t in model.graph.initializer if len(t.dims) == 2)
    counter, state, stacked = start, x, []
    while COMPARISONS[comparison](counter, len(x)) and (most is None or len(stacked) < most):
        state = np.tanh(state @ weights + np.float32(counter))
        stacked.append(state)
        counter += step
    return abs(state), np.exp(np.array(stacked, np.float32)), np.array(len(x), np.int32)


def rows(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, SIZE)).astype(np.float32)


@pytest.mark.parametrize(("start", "step"), [(0, 1), (-3, 2), (1, 3), (0, 100)])
@pytest.mark.parametrize("comparison", COMPARISONS)
def test_a_while_loop_that_counts_runs_natively(comparison: str, start: int, step: int) -> None:
    """Its results have known sizes, so that nothing runs in Python."""
    model = while_loop(comparison, start, step, shape=(7, SIZE))
    session = treadle.Session(model)

    assert_agrees(session, {"x": rows(7)}, *wanted(model, rows(7), comparison, start, step))
    assert_native(session)


@pytest.mark.parametrize("most", [1, 3, 20])
def test_the_lesser_of_two_ends_counts(most: int) -> None:
    """A limit of iterations is often part of the condition."""
    model = while_loop(most=most, shape=(7, SIZE))
    session = treadle.Session(model)

    assert_agrees(session, {"x": rows(7)}, *wanted(model, rows(7), most=most))
    assert_native(session)


def test_one_plan_serves_all_numbers_of_iterations() -> None:
    """
    The number of iterations is an expression of sizes.
    """
    model = while_loop(shape=("rows", SIZE))
    session = treadle.Session(model)
    compiles = session.compiles

    counts = (5, 1, 2, 30)
    for count in counts:
        assert_agrees(session, {"x": rows(count)}, *wanted(model, rows(count)))
    assert session.why_per_size() is None
    assert session.compiles == compiles
    assert_native(session, loops=len(counts))  # each is bound to the plan's sizes


@pytest.mark.parametrize("step", [0, -1])
def test_a_counter_that_does_not_reach_its_end_is_not_counted(step: int) -> None:
    """The loop ends as it did: here by the limit that is part of the condition."""
    model = while_loop(step=step, most=3, shape=(7, SIZE))

    assert_agrees(treadle.Session(model), {"x": rows(7)}, *wanted(model, rows(7), step=step, most=3))


def test_sums_that_are_read_twice_again_and_again_take_no_time() -> None:
    """
    The condition compares a value that was doubled a hundred times, and is joined with itself as often.
    """
    w = ModelWriter()
    inputs = {"i": (INT64, []), "on": (BOOL, []), "s": (FLOAT, [])}
    nodes = [
        node("Add", ["s", "s"], "s0"),
        node("Constant", [], "end", value=helper.make_tensor("e", FLOAT, [], [100])),
    ]
    nodes += [node("Add", [f"s{number}", f"s{number}"], f"s{number + 1}") for number in range(100)]
    nodes += [node("Less", ["i_real", "end"], "c0"), node("Less", ["s100", "end"], "d")]
    nodes.insert(0, node("Cast", ["i"], "i_real", to=FLOAT))
    nodes += [node("And", [f"c{number}", f"c{number}"], f"c{number + 1}") for number in range(100)]
    nodes += [node("And", ["c100", "d"], "again"), node("Identity", ["s100"], "next")]
    loop = body(nodes, inputs, "again", "next")
    y = w.op("Loop", "", w.constant(np.array(True)), "x", body=loop)
    session = treadle.Session(w.model({"x": (FLOAT, [])}, {y: (FLOAT, [])}))
    x = np.array(2.0**-110, np.float32)

    assert session.run({"x": x}, timeout=60)[y] == 2.0**92


def test_a_loop_that_changes_no_result_is_left_out() -> None:
    """As all nodes that no output depends on, and so it gives its result even if it would never end."""
    w = ModelWriter()
    inputs = {"i": (INT64, []), "on": (BOOL, []), "s": (FLOAT, [SIZE])}
    same = body([node("Identity", ["on"], "again"), node("Identity", ["s"], "s_again")], inputs, "again", "s_again")
    y = w.op("Loop", "", w.constant(np.array(True)), "x", body=same)
    session = treadle.Session(w.model({"x": (FLOAT, [SIZE])}, {y: (FLOAT, [SIZE])}))
    x = rows(1)[0]

    assert_native(session, loops=0)
    assert np.array_equal(session.run({"x": x}, timeout=60)[y], x)
