"""Branches of TensorFlow 1 with a predicate that only a run knows: only the side that is taken runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle
import treadle.compat.tensorflow as tf
from tests.unit.frontends.tensorflow.graphs import Writer
from treadle.dtypes import boolean, i32
from treadle.errors import KernelError

SEVEN = np.array(7, np.int32)
ZERO = np.array(0, np.int32)


def sides(w: Writer, value: str, flag: str) -> tuple[str, str]:
    """What comes out of a Switch: for a flag that does not hold, and for one that does."""
    name = w.node("Switch", value, flag, T=i32)
    return name, f"{name}:1"


def divided() -> Writer:
    """y = x // d if flag, else x - d."""
    w = Writer()
    x, d, flag = w.input("x", (), "i32"), w.input("d", (), "i32"), w.input("flag", (), "bool")
    (x_no, x_yes), (d_no, d_yes) = sides(w, x, flag), sides(w, d, flag)
    no, yes = w.node("Sub", x_no, d_no, T=i32), w.node("FloorDiv", x_yes, d_yes, T=i32)
    w.node("Merge", no, yes, name="y", T=i32, N=2)
    return w


def value(w: Writer, **arrays: Any) -> Any:
    given = {name: np.asarray(array) for name, array in arrays.items()}
    return treadle.Session(w.bytes(), outputs=["y"]).run(given)["y"]


def test_the_side_that_is_not_taken_cannot_fail() -> None:
    """
    An integer division by zero raises only if the run takes its side.
    """
    assert value(divided(), x=SEVEN, d=ZERO, flag=False) == 7
    assert value(divided(), x=SEVEN, d=np.int32(2), flag=True) == 3
    with pytest.raises(KernelError, match="divided by zero"):
        value(divided(), x=SEVEN, d=ZERO, flag=True)


def test_an_imported_graph_runs_one_side_too() -> None:
    """
    The same through import_graph_def and a session of the facade.
    """
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(divided().graph, name="")
    with tf.compat.v1.Session(graph=graph) as session:
        assert session.run("y:0", {"x:0": SEVEN, "d:0": ZERO, "flag:0": False}) == 7
        with pytest.raises(tf.errors.InvalidArgumentError, match="divided by zero"):
            session.run("y:0", {"x:0": SEVEN, "d:0": ZERO, "flag:0": True})


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("inner", [False, True])
def test_branches_may_be_nested(outer: bool, inner: bool) -> None:
    """
    x // d is computed if both predicates are true; the sides that are not taken would divide by zero.
    """
    w = Writer()
    x, d = w.input("x", (), "i32"), w.input("d", (), "i32")
    p, q = w.input("p", (), "bool"), w.input("q", (), "bool")
    (x_no, x_yes), (d_no, d_yes) = sides(w, x, p), sides(w, d, p)
    q_yes = w.node("Switch", q, p, T=boolean) + ":1"
    (x_yes_no, x_both), (d_yes_no, d_both) = sides(w, x_yes, q_yes), sides(w, d_yes, q_yes)
    within = w.node("Merge", w.node("Add", x_yes_no, d_yes_no, T=i32), w.node("FloorDiv", x_both, d_both, T=i32), T=i32)
    w.node("Merge", w.node("Sub", x_no, d_no, T=i32), within, name="y", T=i32, N=2)

    if outer and inner:
        with pytest.raises(KernelError, match="divided by zero"):
            value(w, x=SEVEN, d=ZERO, p=True, q=True)
    else:
        assert value(w, x=SEVEN, d=ZERO, p=outer, q=inner) == 7
    assert value(w, x=SEVEN, d=np.int32(2), p=outer, q=inner) == (5 if not outer else 3 if inner else 9)


def test_the_results_of_one_branch_are_computed_together() -> None:
    """
    Two Merges of one predicate become one node, also with a branch of another predicate between them.
    """
    w = Writer()
    x, flag = w.input("x", (), "i32"), w.input("flag", (), "bool")
    no, yes = sides(w, x, flag)
    slow = w.node("Mul", yes, yes, T=i32)
    w.node("Merge", no, slow, name="first", T=i32, N=2)
    w.node("Merge", no, w.node("Add", slow, slow, T=i32), name="second", T=i32, N=2)
    w.node("Add", "first", "second", name="sum", T=i32)
    again_no, again_yes = sides(w, "sum", flag)
    w.node("Merge", w.node("Neg", again_no, T=i32), again_yes, name="y", T=i32, N=2)
    w.node("Identity", "y", T=i32, name="z")
    session = treadle.Session(w.bytes(), outputs=["z"])

    ops = [node.op for node in session.graph.nodes]

    assert ops.count("branch") == 2
    assert session.run({"x": SEVEN, "flag": np.array(True)})["z"] == 49 + 98
    assert session.run({"x": SEVEN, "flag": np.array(False)})["z"] == -14


def test_sides_may_differ_in_shape() -> None:
    """
    What follows the Merge is compiled in the run; the index of the side is available too.
    """
    w = Writer()
    x, flag = w.input("x", (2, 3)), w.input("flag", (), "bool")
    name = w.node("Switch", x, flag)
    w.node("Merge", name, w.node("Sum", f"{name}:1", w.ints(0), keep_dims=False), name="merge", N=2)
    w.node("Neg", "merge", name="y")
    session = treadle.Session(w.bytes(), outputs=["y", "merge:1"])
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    for holds, wanted in ((True, -array.sum(0)), (False, -array)):
        found = session.run({"x": array, "flag": np.array(holds)})
        np.testing.assert_array_equal(found["y"], wanted)
        assert found["merge:1"] == holds
        assert found["merge:1"].dtype == np.int32


def test_a_branch_inside_a_loop_runs_one_side_in_each_iteration() -> None:
    """
    Division by i is valid in each iteration but the first, which takes the other side.
    """
    w = Writer()
    n = w.input("n", (), "i32")
    how = {"frame_name": "loop", "parallel_iterations": 10}
    start = w.constant(0, np.int32)
    for name, first, same in (
        ("i", start, False),
        ("a", start, False),
        ("n", n, True),
        ("twelve", w.constant(12, np.int32), True),
    ):
        w.node("Enter", first, name=f"enter_{name}", T=i32, is_constant=same, **how)
    for name in "ia":
        w.node("Merge", f"enter_{name}", f"next_{name}", name=f"merge_{name}", T=i32, N=2)
    w.node("LoopCond", w.node("Less", "merge_i", "enter_n", T=i32), name="test", T=None)
    for name in "ia":
        w.node("Switch", f"merge_{name}", "test", name=f"switch_{name}", T=i32)
    zero, one = w.constant(0, np.int32), w.constant(1, np.int32)
    flag = w.node("Greater", "switch_i:1", zero, T=i32)
    (_, i_yes), (a_no, a_yes) = sides(w, "switch_i:1", flag), sides(w, "switch_a:1", flag)
    twelve = sides(w, "enter_twelve", flag)[1]
    yes = w.node("Add", a_yes, w.node("FloorDiv", twelve, i_yes, T=i32), T=i32)
    total = w.node("Merge", a_no, yes, T=i32, N=2)
    w.node("NextIteration", w.node("Add", "switch_i:1", one, T=i32), name="next_i", T=i32)
    w.node("NextIteration", total, name="next_a", T=i32)
    w.node("Exit", "switch_a", name="y", T=i32)

    assert value(w, n=np.int32(4)) == 12 + 6 + 4
    assert value(w, n=np.int32(0)) == 0
