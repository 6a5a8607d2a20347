"""Frozen graphs whose sizes depend on data run natively: one plan, whose parts behind these sizes are made later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr
from treadle.dtypes import boolean, f32, i32, i64
from treadle.errors import KernelError, RunError

Array = np.ndarray[Any, Any]
X = np.random.default_rng(7).standard_normal(9).astype(np.float32)


def session_of(write: Writer, tmp_path: Path, *outputs: str) -> treadle.Session:
    path = tmp_path / "model.pb"
    path.write_bytes(write.bytes())
    return treadle.Session(path, outputs=list(outputs))


def assert_native(session: treadle.Session) -> None:
    assert [call.node for plan in session.plans() for call in plan.calls if call.function is not None] == []


def check(session: treadle.Session, feeds: Mapping[str, Any], **wanted: Any) -> None:
    found = session.run(feeds)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6)
        assert found[name].shape == np.shape(value)
    assert_native(session)


def kept(write: Writer, x: str) -> str:
    """What of x is positive."""
    found = write.node("Where", write.node("Greater", x, write.constant(np.float32(0))), T=boolean)
    places = write.node("Squeeze", found, T=i64, squeeze_dims=[1])
    return write.node("GatherV2", x, places, write.constant(0, np.int32), T=None, Tparams=f32, Tindices=i64, Taxis=i32)


def test_what_follows_found_places(tmp_path: Path) -> None:
    write = Writer()
    some = kept(write, write.input("x", (None,)))
    write.node("Shape", some, name="shape", out_type=i32)
    write.node("Sum", write.node("Square", some), write.ints(0), name="sum", keep_dims=False)
    session = session_of(write, tmp_path, "shape", "sum")
    for x in (X, X[:4], -np.abs(X)):
        positive = x[x > 0]
        check(session, {"x": x}, shape=np.array([len(positive)]), sum=np.sum(positive**2))


def test_numbers_that_decide_sizes(tmp_path: Path) -> None:
    """Range and Tile take numbers that the graph computes."""
    write = Writer()
    n = write.node("Mul", write.input("n", (), "i32"), write.constant(2, np.int32), T=i32)
    zero, one = write.constant(0, np.int32), write.constant(1, np.int32)
    write.node("Range", zero, n, one, name="numbers", T=None, Tidx=i32)
    write.node(
        "Tile", write.input("x", (None,)), write.node("ExpandDims", n, zero, T=i32), name="tiled", Tmultiples=i32
    )
    session = session_of(write, tmp_path, "numbers", "tiled")
    for n_ in (3, 1, 0):
        check(session, {"n": np.int32(n_), "x": X}, numbers=np.arange(2 * n_, dtype=np.int32), tiled=np.tile(X, 2 * n_))


def growing() -> Writer:
    """A While whose variable is doubled `n` times."""
    return looping(("more", "ConcatV2", ["x", "x", "axis:output:0"], {"T": f32, "N": 2, "Tidx": i32}))


def looping(change: tuple[str, str, list[str], dict[str, Any]]) -> Writer:
    """A While that changes its variable `n` times by the node `change`."""
    write = Writer()
    i32s, x = write.constant(0, np.int32), write.input("x", (None,))
    arguments = {"i": i32, "n": i32, "x": f32}
    write.function("test", arguments, {"on": "less:z:0"}, [("less", "Less", ["i", "n"], {"T": i32})])
    write.function(
        "step",
        arguments,
        {"next": "add:z:0", "same": "n", "changed": "more:output:0"},
        [
            ("one", "Const", [], {"dtype": i32, "value": np.array(1, np.int32)}),
            ("axis", "Const", [], {"dtype": i32, "value": np.array(0, np.int32)}),
            ("add", "AddV2", ["i", "one:output:0"], {"T": i32}),
            change,
        ],
    )
    functions = {"cond": function_attr("test"), "body": function_attr("step")}
    found = write.node("While", i32s, write.input("n", (), "i32"), x, T=None, **functions)
    write.node("Neg", f"{found}:2", name="y")
    return write


def test_a_loop_whose_variable_grows(tmp_path: Path) -> None:
    session = session_of(growing(), tmp_path, "y")
    for n in (2, 0, 3):
        check(session, {"x": X, "n": np.int32(n)}, y=-np.tile(X, 2**n))


def test_a_loop_that_gives_its_variable_further_axes(tmp_path: Path) -> None:
    """Each iteration stacks it on itself; Python drives the loop."""
    stacks = ("more", "Pack", ["x", "x"], {"T": f32, "N": 2, "axis": 0})
    session = session_of(looping(stacks), tmp_path, "y")
    for n in (2, 0, 3, 1, 2):
        wanted = X
        for _ in range(n):
            wanted = np.stack([wanted, wanted])
        np.testing.assert_array_equal(session.run({"x": X, "n": np.int32(n)})["y"], -wanted)


def sides(write: Writer, **nodes: tuple[str, list[str], dict[str, Any]]) -> None:
    """Functions of x called by their names, each of one node."""
    for name, (op, inputs, attrs) in nodes.items():
        constants = [("axis", "Const", [], {"dtype": i32, "value": np.array(0, np.int32)})]
        write.function(name, {"x": f32}, {"y": f"made:{'output' if op == 'ConcatV2' else 'y'}:0"}, [
            *constants, ("made", op, inputs, {"T": f32, **attrs}),
        ])  # fmt: skip


DOUBLED = ("ConcatV2", ["x", "x", "axis:output:0"], {"N": 2, "Tidx": i32})


def test_a_branch_whose_sides_differ_in_size(tmp_path: Path) -> None:
    write = Writer()
    x, flag = write.input("x", (None,)), write.input("flag", (), "bool")
    sides(write, yes=("Neg", ["x"], {}), no=DOUBLED)
    functions = {"then_branch": function_attr("yes"), "else_branch": function_attr("no")}
    write.node("Exp", write.node("If", flag, x, T=None, Tout=[f32], **functions), name="y")
    session = session_of(write, tmp_path, "y")
    check(session, {"x": X, "flag": np.array(True)}, y=np.exp(-X))
    check(session, {"x": X, "flag": np.array(False)}, y=np.exp(np.tile(X, 2)))


@pytest.mark.parametrize("ops", ["Case", "StatelessCase"])
def test_a_case_takes_the_function_of_its_index(tmp_path: Path, ops: str) -> None:
    """Indices for which there is no function take the last one."""
    write = Writer()
    sides(write, first=("Neg", ["x"], {}), second=("Square", ["x"], {}), last=DOUBLED)
    message = function_attr("first").__class__()
    for name in ("first", "second", "last"):
        message.list.func.add().name = name
    x, index = write.input("x", (None,)), write.input("index", (), "i32")
    write.node("Neg", write.node(ops, index, x, T=None, Tout=[f32], branches=message), name="y")
    session = session_of(write, tmp_path, "y")
    for place, wanted in ((0, X), (1, -(X**2)), (2, -np.tile(X, 2)), (7, -np.tile(X, 2)), (-1, -np.tile(X, 2))):
        check(session, {"x": X, "index": np.int32(place)}, y=wanted)


def test_nested_bodies_of_one_name_keep_plans_of_their_own(tmp_path: Path) -> None:
    """The functions of a Case are nested branches of the same node, whose plans are stored apart."""
    test_a_case_takes_the_function_of_its_index(tmp_path, "Case")
    test_a_case_takes_the_function_of_its_index(tmp_path, "Case")


def test_operands_that_do_not_fit_fail_in_the_run(tmp_path: Path) -> None:
    write = Writer()
    some = kept(write, write.input("x", (None,)))
    write.node("AddV2", some, write.constant(np.ones(3, np.float32)), name="y")
    session = session_of(write, tmp_path, "y")
    check(session, {"x": np.array([1, 2, -1, 3], np.float32)}, y=np.array([2, 3, 4], np.float32))
    with pytest.raises(RunError, match="broadcast"):
        session.run({"x": np.array([1, 2, 3, 4, -5], np.float32)})


def test_unique_elements_in_order(tmp_path: Path) -> None:
    write = Writer()
    write.node("UniqueWithCounts", write.input("x", (None,)), out_idx=i32, name="found")
    write.node("Neg", "found", name="negative")
    session = session_of(write, tmp_path, "negative", "found:1", "found:2")
    for x in ([3, 1, 3, 2, 1, 1], [2], [0, 0]):
        first = list(dict.fromkeys(x))
        check(
            session,
            {"x": np.array(x, np.float32)},
            **{
                "negative": -np.array(first, np.float32),
                "found:1": np.array([first.index(each) for each in x]),
                "found:2": np.array([x.count(each) for each in first]),
            },
        )


def test_rows_are_parted_and_stitched(tmp_path: Path) -> None:
    """A number that no part has is refused, as TensorFlow does."""
    write = Writer()
    x, parts = write.input("x", (None, 2)), write.input("parts", (None,), "i32")
    places = write.input("places", (None,), "i32")
    write.node("DynamicPartition", x, parts, name="part", num_partitions=2)
    split = write.node("DynamicPartition", places, parts, T=i32, num_partitions=2)
    write.node("DynamicStitch", split, f"{split}:1", "part", "part:1", N=2, name="whole")
    session = session_of(write, tmp_path, "part", "part:1", "whole")
    rows = X[:8].reshape(4, 2)
    for numbers in ([0, 1, 1, 0], [1, 1, 1, 1]):
        taken, order = np.array(numbers, np.int32), np.array([2, 0, 3, 1], np.int32)
        whole = np.empty_like(rows)
        whole[order] = rows
        feeds = {"x": rows, "parts": taken, "places": order}
        check(session, feeds, **{"part": rows[taken == 0], "part:1": rows[taken == 1], "whole": whole})
    for wrong in (2, -1):
        with pytest.raises(KernelError, match="index"):
            session.run({"x": rows, "parts": np.array([0, 1, wrong, 1], np.int32), "places": order})


def test_sparse_values_in_a_shape_that_is_computed(tmp_path: Path) -> None:
    write = Writer()
    places, values = write.input("places", (None, 2), "i32"), write.input("values", (None,))
    shape = write.node(
        "AddV2", write.node("Max", places, write.ints(0), T=i32, keep_dims=False), write.ints(1, 1), T=i32
    )
    default = write.constant(np.float32(-1))
    dense = write.node("SparseToDense", places, shape, values, default, Tindices=i32)
    write.node("Neg", dense, name="dense")
    session = session_of(write, tmp_path, "dense")
    for found in ([[0, 1], [2, 0]], [[1, 4]]):
        wanted = np.full(np.max(found, axis=0) + 1, 1, np.float32)
        for (row, column), value in zip(found, X, strict=False):
            wanted[row, column] = -value
        check(session, {"places": np.array(found, np.int32), "values": X[: len(found)]}, dense=wanted)


def test_boxes_that_do_not_overlap(tmp_path: Path) -> None:
    """As many as are wanted at most; padded ones have zeros behind them."""
    write = Writer()
    boxes, scores, most = (
        write.input("boxes", (None, 4)),
        write.input("scores", (None,)),
        write.input("most", (), "i32"),
    )
    limits = [write.constant(np.float32(each)) for each in (0.5, 0.1, 0.0)]
    write.node("NonMaxSuppressionV2", boxes, scores, most, limits[0], name="second")
    write.node("NonMaxSuppressionV5", boxes, scores, most, *limits, name="fifth", pad_to_max_output_size=True)
    write.node("NonMaxSuppressionV4", boxes, scores, most, *limits[:2], name="fourth", pad_to_max_output_size=False)
    session = session_of(write, tmp_path, "second", "fourth", "fourth:1", "fifth", "fifth:1", "fifth:2")
    given = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [0, 2, 1, 3]], np.float32)
    rated = np.array([0.4, 0.9, 0.05, 0.6], np.float32)
    for count in (4, 1):
        chosen = [1, 3][:count]
        padding = [0] * (count - len(chosen))
        check(
            session,
            {"boxes": given, "scores": rated, "most": np.int32(count)},
            **{
                "second": np.array([1, 3, 2][:count]),
                "fourth": np.array(chosen),
                "fourth:1": np.array(len(chosen)),
                "fifth": np.array([*chosen, *padding]),
                "fifth:1": np.array([*rated[chosen], *padding], np.float32),
                "fifth:2": np.array(len(chosen)),
            },
        )
