"""Branches of ONNX models the sizes of whose results depend on the body taken, and loops whose bodies find sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import treadle
from tests.models.small import FLOAT, ModelWriter, node, side
from tests.models.test_data_loops import BOOL, INT64, SIZE, X, assert_agrees, assert_in_the_run, body
from treadle.errors import RunError


def chosen_or_doubled() -> onnx.ModelProto:
    """Returns a model whose If takes the rows of x with a positive sum, or x and its double one below the other."""
    w = ModelWriter()
    first, second, two = (w.constant(np.array(number)) for number in ([0], [1], np.float32(2)))
    threshold = w.constant(np.float32(0))
    yes = [
        node("ReduceSum", ["x", second], "sums", keepdims=0),
        node("Greater", ["sums", threshold], "mask"),
        node("NonZero", ["mask"], "found"),
        node("Squeeze", ["found", first], "places"),
        node("Gather", ["x", "places"], "chosen", axis=0),
    ]
    no = [node("Mul", ["x", two], "double"), node("Concat", ["x", "double"], "both", axis=0)]
    y = w.op("If", "c", then_branch=side(yes, "chosen"), else_branch=side(no, "both"))
    return w.model({"x": (FLOAT, ["rows", SIZE]), "c": (BOOL, [])}, {w.op("Exp", y): (FLOAT, None)})


def test_a_branch_gives_sizes_that_depend_on_it() -> None:
    model = chosen_or_doubled()
    session = treadle.Session(model)
    runs = [{"x": x, "c": np.array(c)} for x in (X, -np.abs(X), X[:1]) for c in (True, False)]
    assert_agrees(session, model, *runs)
    assert_in_the_run(session)
    compiles = session.compiles
    assert_agrees(
        session, model, {"x": X[[0, 1, 2, 0, 1]], "c": np.array(True)}, {"x": X[[1, 1]], "c": np.array(False)}
    )
    assert session.compiles == compiles


def test_a_trace_shows_the_branch_taken(tmp_path: Path) -> None:
    session = treadle.Session(chosen_or_doubled())
    for taken, shown, hidden in ((True, "found", "both"), (False, "both", "found")):
        given = {"x": X, "c": np.array(taken)}
        session.run(given)
        with treadle.trace(tmp_path / "trace.json") as recording:
            session.run(given)
        names = {event.node for event in recording.events}
        assert f"if0/{shown}" in names
        assert f"if0/{hidden}" not in names


def test_operands_that_do_not_fit_a_body_are_an_error_only_if_it_is_taken() -> None:
    w = ModelWriter()
    weights, second, zero = w.random(SIZE + 1, 2), w.constant(np.array([1])), w.constant(np.float32(0))
    no = [node("MatMul", ["x", weights], "product")]
    yes = [
        node("ReduceSum", ["x", second], "sums", keepdims=0),
        node("Greater", ["sums", zero], "mask"),
        node("Compress", ["x", "mask"], "chosen", axis=0),
    ]
    y = w.op("If", "c", then_branch=side(yes, "chosen"), else_branch=side(no, "product"))
    model = w.model({"x": (FLOAT, ["rows", "columns"]), "c": (BOOL, [])}, {y: (FLOAT, None)})
    session = treadle.Session(model)
    (found,) = session.run({"x": X, "c": np.array(True)}).values()
    np.testing.assert_array_equal(found, X[X.sum(axis=1) > 0])
    with pytest.raises(RunError, match="product"):
        session.run({"x": X, "c": np.array(False)})


def changed_by_data(shape: str) -> onnx.ModelProto:
    """Returns a model whose Loop reshapes its carried value to `shape`, an input, and stacks it."""
    w = ModelWriter()
    nodes = [node("Identity", ["on"], "again"), node("Reshape", ["s", shape], "next")]
    y = w.op("Loop", "n", "", "x", outputs=2, body=body(nodes, {"s": FLOAT}, "next", "next"))
    return w.model(
        {"x": (FLOAT, [2, 6]), "n": (INT64, []), shape: (INT64, [2])}, {y: (FLOAT, None), f"{y}_1": (FLOAT, None)}
    )


def test_a_body_reshapes_by_data() -> None:
    model = changed_by_data("shape")
    session = treadle.Session(model)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    assert_agrees(session, model, *({"x": x, "n": n, "shape": np.array(s)} for n, s in ((3, (4, 3)), (1, (1, 12)))))
    assert_in_the_run(session)


def test_carried_values_broadcast_against_sizes_that_become_equal() -> None:
    """The first iteration makes one row as many as those of another input."""
    w = ModelWriter()
    nodes = [node("Identity", ["on"], "again"), node("Add", ["s", "rows"], "next")]
    y = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "next"))
    model = w.model({"x": (FLOAT, ["a", SIZE]), "rows": (FLOAT, ["b", SIZE]), "n": (INT64, [])}, {y: (FLOAT, None)})
    session = treadle.Session(model)
    rows = np.concatenate([X, X])
    pairs = [(X[:1], rows), (rows, rows), (rows, X[:1]), (X[:1], X[:1])]
    assert_agrees(session, model, *({"x": x, "rows": given, "n": 3} for x, given in pairs))


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMax", "ReduceProd", "ReduceMean"])
def test_reductions_of_nothing_need_no_python(op: str) -> None:
    w = ModelWriter()
    places = w.op("Squeeze", w.op("NonZero", "keep"), w.constant(np.array([0])))
    kept = w.op("Gather", "x", places, axis=0)
    if op == "ReduceSum":
        y = w.op(op, kept, w.constant(np.array([0])), keepdims=0)
    else:
        y = w.op(op, kept, axes=[0], keepdims=0)
    model = w.model({"x": (FLOAT, [3, SIZE]), "keep": (BOOL, [3])}, {y: (FLOAT, [SIZE])})
    session = treadle.Session(model)
    assert_agrees(session, model, {"x": X, "keep": np.array([True, False, True])})
    (found,) = session.run({"x": X, "keep": np.zeros(3, bool)}).values()
    wanted = {"ReduceSum": 0.0, "ReduceMax": -np.inf, "ReduceProd": 1.0, "ReduceMean": np.nan}[op]
    np.testing.assert_array_equal(found, np.full(SIZE, wanted, np.float32))
    assert_in_the_run(session)


def test_nothing_is_found_in_nothing() -> None:
    """The size of NonZero's operand is no symbol but an expression, which is 0 for some numbers."""
    w = ModelWriter()
    end = w.op("Sub", "n", w.constant(np.array([2])))
    part = w.op("Slice", "x", w.constant(np.array([0])), end, w.constant(np.array([0])))
    found = w.op("NonZero", part)
    model = w.model({"x": (FLOAT, [3]), "n": (INT64, [1])}, {found: (INT64, [1, None])})
    session = treadle.Session(model)
    x = np.array([1, 0, 2], np.float32)
    assert_agrees(session, model, *({"x": x, "n": np.array([n])} for n in (5, 2, 3, 2)))
    assert_in_the_run(session)


def test_a_rank_may_change() -> None:
    """In the last iteration a size is 1, so that Squeeze removes an axis that it kept before."""
    w = ModelWriter()
    one, axis = w.constant(np.array([1])), w.constant(np.array([0]))
    w.nodes.append(node("Identity", [w.constant(np.array([1 << 40]))], "most"))
    nodes = [
        node("Identity", ["on"], "again"),
        node("Slice", ["s", one, "most", axis], "shorter"),
        node("Squeeze", ["shorter"], "next"),
    ]
    y = w.op("Loop", "n", "", "x", body=body(nodes, {"s": FLOAT}, "next"))
    model = w.model({"x": (FLOAT, [4, 2]), "n": (INT64, [])}, {y: (FLOAT, None)})
    session = treadle.Session(model)
    x = X[[0, 1, 2, 0], :2]
    (found,) = session.run({"x": x, "n": np.array(2)}).values()
    np.testing.assert_array_equal(found, x[2:])
    (found,) = session.run({"x": x, "n": np.array(3)}).values()
    np.testing.assert_array_equal(found, x[3])
