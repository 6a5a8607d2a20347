"""Loops of frozen graphs that the native core runs: counted variables, lists as sliced and stacked values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr
from treadle.dtypes import boolean, f32, i32, string
from treadle.errors import RunError
from treadle.frontends.tensorflow.control import ListLoop, Loop
from treadle.graph.graph import all_nodes

NAMES = {"i": i32, "n": i32, "a": f32, "out": string, "rows": string}
"""The variables of the loop: its counter, the end, the sum of the rows so far, the list of sums, the list of rows."""


def summing(
    *,
    ends: float | None = None,
    read: str = "i",
    write: str = "i",
    first: int = 0,
    less: int = 0,
    filled: bool = False,
    alone: bool = False,
) -> Writer:
    """y = sums of the rows so far: the loop reads rows `read` and writes sums `write`, with i from `first`.

    It ends where i reaches the number of rows less `less`, or where the first sum is `ends` or more. The list of sums
    begins with the rows if it is `filled`, else it is unwritten. If it is `alone`, it has one item of any size.
    """
    w = Writer()
    test: list[tuple[Any, ...]] = [("less", "Less", ["i", "n"], {"T": i32})]
    if ends is not None:
        test += [
            ("end", "Const", [], {"value": np.array(ends, np.float32)}),
            ("zero", "Const", [], {"value": np.array(0, np.int32)}),
            ("one", "Const", [], {"value": np.array(1, np.int32)}),
            ("first", "Slice", ["a", "at:output:0", "size:output:0"], {"T": f32, "Index": i32}),
            ("at", "Const", [], {"value": np.array([0], np.int32)}),
            ("size", "Const", [], {"value": np.array([1], np.int32)}),
            ("flat", "Reshape", ["first:output:0", "none:output:0"], {"T": f32, "Tshape": i32}),
            ("none", "Const", [], {"value": np.array([], np.int32)}),
            ("small", "Less", ["flat:output:0", "end:output:0"], {"T": f32}),
            ("both", "LogicalAnd", ["less:z:0", "small:z:0"], {}),
        ]
    w.function("test", NAMES, {"go": "less:z:0" if ends is None else "both:z:0"}, test)
    w.function(
        "step", NAMES,
        {"i1": "next:z:0", "n1": "n", "a1": "total:z:0", "out1": "set:output_handle:0", "rows1": "rows"},
        [
            ("one", "Const", [], {"value": np.array(1, np.int32)}),
            ("zero", "Const", [], {"value": np.array(0, np.int32)}),
            ("two", "Const", [], {"value": np.array(2, np.int32)}),
            ("any", "Const", [], {"value": np.array(-1, np.int32)}),
            ("next", "Add", ["i", "one:output:0"], {"T": i32}),
            ("before", "Sub", ["i", "one:output:0"], {"T": i32}),
            ("row", "TensorListGetItem", ["rows", read, "any:output:0"], {"element_dtype": f32}),
            ("total", "Add", ["a", "row:item:0"], {"T": f32}),
            ("set", "TensorListSetItem", ["out", write, "total:z:0"], {"element_dtype": f32}),
        ],
    )  # fmt: skip
    x = w.input("x", (None, 3))
    whole = w.node("StridedSlice", w.node("Shape", x, out_type=i32), w.ints(0), w.ints(1), w.ints(1), T=i32,
                   shrink_axis_mask=1)  # fmt: skip
    count = w.node("Sub", whole, w.constant(less, np.int32), T=i32)
    rows = w.node("TensorListFromTensor", x, w.ints(3), T=None, element_dtype=f32)
    dims, length = (w.ints(-1), w.constant(1, np.int32)) if alone else (w.ints(3), whole)
    out = rows if filled else w.node("TensorListReserve", dims, length, T=None, element_dtype=f32)
    start = w.constant(np.zeros(3, np.float32))
    w.node("StatelessWhile", w.constant(first, np.int32), count, start, out, rows, name="loop",
           T=[i32, i32, f32, string, string], cond=function_attr("test"), body=function_attr("step"))  # fmt: skip
    w.node("TensorListStack", "loop:3", w.ints(3), T=None, element_dtype=f32, num_elements=-1, name="y")
    w.node("Identity", "loop:0", T=i32, name="i")
    w.node("Identity", "loop:2", name="a")
    return w


def expected(x: np.ndarray, **how: Any) -> dict[str, np.ndarray]:
    """What `summing` with the same arguments computes, as TensorFlow does."""
    offsets, places = {"i": 0, "next:z:0": 1, "before:z:0": -1}, {"zero:output:0": 0, "two:output:0": 2}
    read, write = (how.get(name, "i") for name in ("read", "write"))
    out = x.copy() if how.get("filled") else np.zeros_like(x[:1] if how.get("alone") else x)
    i, a = how.get("first", 0), np.zeros(3, np.float32)
    while i < len(x) - how.get("less", 0) and (how.get("ends") is None or a[0] < how["ends"]):
        a = a + x[i + offsets[read]]
        out[places[write] if write in places else i + offsets[write]] = a
        i += 1
    return {"y": out, "i": np.array(i, np.int32), "a": a}


def session_of(w: Writer, **settings: Any) -> treadle.Session:
    return treadle.Session(w.bytes(), outputs=["y", "i", "a"], **settings)


def check(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).random((count, 3)).astype(np.float32)


def has_loop(session: treadle.Session) -> bool:
    """Whether the native core runs the loop, and Python no step."""
    ops = [node.op for node in all_nodes(session.graph)]
    functions = [node.attrs["function"] for node in session.graph.nodes if node.op == "call"]
    return "loop" in ops and not any(isinstance(function, ListLoop | Loop) for function in functions)


CASES: dict[str, dict[str, Any]] = {
    "all": {},
    "next": {"read": "next:z:0", "write": "next:z:0", "less": 1},
    "previous": {"read": "before:z:0", "write": "before:z:0", "first": 1},
    "later": {"first": 2},
    "part": {"less": 1, "first": 1},
    "filled": {"less": 1, "first": 1, "filled": True},
    "apart": {"read": "next:z:0", "less": 1},
    "again": {"write": "two:output:0"},
    "filled again": {"write": "two:output:0", "filled": True},
    "last": {"write": "zero:output:0", "alone": True},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("count", [3, 4, 50])
def test_counted_loops_over_lists(case: str, count: int) -> None:
    """
    At offsets of the counter, from other first values, over all items and over some: the others stay as they are.
    """
    session, x = session_of(summing(**CASES[case])), rows(count)
    check(session.run({"x": x}), expected(x, **CASES[case]))
    assert has_loop(session)


@pytest.mark.parametrize("case", ["all", "next", "filled", "again", "filled again"])
@pytest.mark.parametrize("ends", [0.0, 0.3, 2.5, 1e9])
def test_data_may_end_a_loop_over_lists(case: str, ends: float) -> None:
    """
    Items that are not written stay zeros, or what they were.
    """
    how = CASES[case] | {"ends": ends}
    session, x = session_of(summing(**how)), rows(9)
    check(session.run({"x": x}), expected(x, **how))
    assert has_loop(session)


@pytest.mark.parametrize("case", ["all", "last"])
def test_one_plan_serves_all_lengths(case: str) -> None:
    session = session_of(summing(**CASES[case]))
    for count in (3, 8, 21, 4):
        x = rows(count)
        check(session.run({"x": x}), expected(x, **CASES[case]))
    assert session.compiles <= 1  # none if the plan is on disk
    assert session.why_per_size() is None


@pytest.mark.parametrize("ends", [None, 2.5])
def test_results_do_not_depend_on_threads(ends: float | None) -> None:
    w, x = summing(ends=ends), rows(64)
    one, two = (session_of(w, intra_op=threads, inter_op=threads).run({"x": x}) for threads in (1, 2))
    check(two, one)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"write": "two:output:0", "alone": True}, "modify element 2 in a list with 1"),
        ({"read": "next:z:0"}, r"'row' .*an index is out of range"),
        ({"write": "next:z:0"}, r"'set' .*an index is out of range"),
    ],
)
def test_items_that_are_not_there_are_errors(how: dict[str, Any], words: str) -> None:
    """
    A loop that may leave its list says where it left it.
    """
    session = session_of(summing(**how))
    with pytest.raises(RunError, match=words):
        session.run({"x": rows(4)})


def test_a_list_that_is_read_and_written_keeps_its_order() -> None:
    """
    An iteration reads what the one before wrote, so its items are no sliced value.
    """
    w = summing(read="before:z:0", first=1, filled=True)
    step = next(function for function in w.graph.library.function if function.signature.name == "step")
    next(node for node in step.node_def if node.name == "row").input[0] = "out"
    session, x = session_of(w), rows(5)

    out, a = x.copy(), np.zeros(3, np.float32)
    for i in range(1, 5):
        a = a + out[i - 1]
        out[i] = a
    check(session.run({"x": x}), {"y": out, "i": np.array(5, np.int32), "a": a})
    assert has_loop(session)


def test_other_readers_of_a_list_get_it() -> None:
    """
    Its length, an item, and a reader that needs the list itself.
    """
    w = summing()
    how: dict[str, Any] = {"T": None, "element_dtype": f32}
    w.node("TensorListLength", "loop:3", T=None, name="length")
    w.node("TensorListGetItem", "loop:3", w.constant(2, np.int32), w.ints(3), **how, name="third")
    w.node("TensorListConcatV2", "loop:3", w.ints(3), w.constant([], np.int64), **how, name="joined")
    x = rows(4)
    found = treadle.Session(w.bytes(), outputs=["length", "third", "joined"]).run({"x": x})

    assert found["length"] == 4
    np.testing.assert_array_equal(found["third"], np.cumsum(x, axis=0)[2])
    np.testing.assert_array_equal(found["joined"], np.cumsum(x, axis=0).reshape(-1))


def test_a_loop_of_bools_is_counted() -> None:
    """
    A test that is no comparison leaves the end to the body.
    """
    w = Writer()
    variables = {"i": i32, "go": boolean}
    w.function("test", variables, {"more": "go"}, [])
    w.function("step", variables, {"i1": "next:z:0", "go1": "less:z:0"}, [
        ("one", "Const", [], {"value": np.array(1, np.int32)}),
        ("five", "Const", [], {"value": np.array(5, np.int32)}),
        ("next", "Add", ["i", "one:output:0"], {"T": i32}),
        ("less", "Less", ["next:z:0", "five:output:0"], {"T": i32}),
    ])  # fmt: skip
    w.input("go", (), "bool")
    w.node("StatelessWhile", w.constant(0, np.int32), "go", name="loop", T=[i32, boolean],
           cond=function_attr("test"), body=function_attr("step"))  # fmt: skip
    w.node("Identity", "loop", T=i32, name="i")
    session = treadle.Session(w.bytes(), outputs=["i"])

    assert session.run({"go": np.array(True)})["i"] == 5
    assert session.run({"go": np.array(False)})["i"] == 0
    assert has_loop(session)


def nested(depth: int) -> Writer:
    """y[i] = rows of x[i] times 0, 1, 2, 3, as `depth` - 1 loops stack them: each makes a list of its own."""
    w = Writer()
    shape = [4] * (depth - 1) + [3]
    for level in range(1, depth):
        names = {"j": i32, "m": i32, "row": f32, "own": string}
        w.function(f"test{level}", names, {"go": "less:z:0"}, [("less", "Less", ["j", "m"], {"T": i32})])
        nodes: list[tuple[Any, ...]] = [
            ("one", "Const", [], {"value": np.array(1, np.int32)}),
            ("next", "Add", ["j", "one:output:0"], {"T": i32}),
            ("f", "Cast", ["j"], {"SrcT": i32, "DstT": f32}),
            ("scaled", "Mul", ["row", "f:y:0"], {"T": f32}),
            *(_inner(level - 1, shape[-level:], "scaled:z:0") if level > 1 else ()),
            ("set", "TensorListSetItem", ["own", "j", "stack:tensor:0" if level > 1 else "scaled:z:0"],
             {"element_dtype": f32}),
        ]  # fmt: skip
        results = {"j1": "next:z:0", "m1": "m", "row1": "row", "own1": "set:output_handle:0"}
        w.function(f"step{level}", names, results, nodes)
    names = {"i": i32, "n": i32, "x": f32, "out": string}
    w.function(f"test{depth}", names, {"go": "less:z:0"}, [("less", "Less", ["i", "n"], {"T": i32})])
    w.function(
        f"step{depth}", names, {"i1": "next:z:0", "n1": "n", "x1": "x", "out1": "set:output_handle:0"},
        [
            ("one", "Const", [], {"value": np.array(1, np.int32)}),
            ("axis", "Const", [], {"value": np.array(0, np.int32)}),
            ("next", "Add", ["i", "one:output:0"], {"T": i32}),
            ("row", "GatherV2", ["x", "i", "axis:output:0"], {"Tparams": f32, "Tindices": i32, "Taxis": i32}),
            *_inner(depth - 1, shape[-depth:], "row:output:0"),
            ("set", "TensorListSetItem", ["out", "i", "stack:tensor:0"], {"element_dtype": f32}),
        ],
    )  # fmt: skip
    x = w.input("x", (None, 3))
    whole = w.node("StridedSlice", w.node("Shape", x, out_type=i32), w.ints(0), w.ints(1), w.ints(1), T=i32,
                   shrink_axis_mask=1)  # fmt: skip
    out = w.node("TensorListReserve", w.ints(*shape), whole, T=None, element_dtype=f32)
    w.node("StatelessWhile", w.constant(0, np.int32), whole, x, out, name="loop", T=[i32, i32, f32, string],
           cond=function_attr(f"test{depth}"), body=function_attr(f"step{depth}"))  # fmt: skip
    w.node("TensorListStack", "loop:3", w.ints(*shape), T=None, element_dtype=f32, num_elements=-1, name="y")
    return w


def _inner(level: int, shape: list[int], row: str) -> list[tuple[Any, ...]]:
    """The nodes of a body that run the loop of this level, which fills a list of items with `shape`, and stack it."""
    return [
        ("first", "Const", [], {"value": np.array(0, np.int32)}),
        ("four", "Const", [], {"value": np.array(4, np.int32)}),
        ("shape", "Const", [], {"value": np.array(shape[1:] if len(shape) > 1 else shape, np.int32)}),
        ("list", "TensorListReserve", ["shape:output:0", "four:output:0"], {"element_dtype": f32, "shape_type": i32}),
        ("loop", "StatelessWhile", ["first:output:0", "four:output:0", row, "list:handle:0"],
         {"T": [i32, i32, f32, string], "cond": function_attr(f"test{level}"), "body": function_attr(f"step{level}")}),
        ("stack", "TensorListStack", ["loop:output:3", "shape:output:0"], {"element_dtype": f32, "num_elements": -1}),
    ]  # fmt: skip


@pytest.mark.parametrize("depth", [2, 3])
def test_nested_loops_make_lists_of_their_own(depth: int) -> None:
    """Each level is a loop of the core, also with more threads than CPUs."""
    session = treadle.Session(nested(depth).bytes(), outputs=["y"])
    x = rows(5)
    wanted = _scaled(x, depth)
    for threads in (1, 2, 5):
        found = session.run({"x": x}, intra_op=threads, inter_op=threads)["y"]
        np.testing.assert_array_equal(found, wanted)
    assert has_loop(session)


def _scaled(x: np.ndarray, depth: int) -> np.ndarray:
    """What `nested` computes."""
    factors = np.arange(4, dtype=np.float32)
    found = x
    for _ in range(depth - 1):
        found = found[..., None, :] * factors[:, None]
    return found
