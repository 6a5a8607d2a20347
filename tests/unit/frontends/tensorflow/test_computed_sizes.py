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
from treadle.errors import RunError

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
    """Range and Tile of what is computed."""
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
    write = Writer()
    i32s, x = write.constant(0, np.int32), write.input("x", (None,))
    arguments = {"i": i32, "n": i32, "x": f32}
    write.function("test", arguments, {"on": "less:z:0"}, [("less", "Less", ["i", "n"], {"T": i32})])
    write.function(
        "step",
        arguments,
        {"next": "add:z:0", "same": "n", "longer": "concat:output:0"},
        [
            ("one", "Const", [], {"dtype": i32, "value": np.array(1, np.int32)}),
            ("axis", "Const", [], {"dtype": i32, "value": np.array(0, np.int32)}),
            ("add", "AddV2", ["i", "one:output:0"], {"T": i32}),
            ("concat", "ConcatV2", ["x", "x", "axis:output:0"], {"T": f32, "N": 2, "Tidx": i32}),
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
