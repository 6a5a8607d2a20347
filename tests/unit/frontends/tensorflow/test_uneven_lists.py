"""Lists whose items differ in shape, and lists that items are pushed onto and popped from, run in the native core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr
from tests.unit.frontends.tensorflow.test_computed_sizes import assert_native
from treadle.dtypes import f32, i32, i64, string
from treadle.errors import RunError, TreadleError

Array = np.ndarray[Any, Any]
Nodes = list[tuple[Any, ...]]
X = np.random.default_rng(11).standard_normal(12).astype(np.float32)
LIST = {"element_dtype": f32, "shape_type": i32}
HELD = {"element_dtype": f32}
NAMES = {"i": i32, "n": i32, "x": f32, "list": string, "sum": f32}
"""The variables of each loop."""
CONSTANTS: Nodes = [
    ("zero", "Const", [], {"value": np.array(0, np.int32)}),
    ("one", "Const", [], {"value": np.array(1, np.int32)}),
    ("three", "Const", [], {"value": np.array(3, np.int32)}),
    ("any", "Const", [], {"value": np.array([-1], np.int32)}),
    ("first", "Const", [], {"value": np.array([0], np.int32)}),
    ("next", "AddV2", ["i", "one:output:0"], {"T": i32}),
    ("before", "Sub", ["i", "one:output:0"], {"T": i32}),
    ("rest", "FloorMod", ["i", "three:output:0"], {"T": i32}),
    ("count", "AddV2", ["rest:z:0", "one:output:0"], {"T": i32}),
    ("counts", "ExpandDims", ["count:z:0", "zero:output:0"], {"T": i32, "Tdim": i32}),
    ("part", "Slice", ["x", "first:output:0", "counts:output:0"], {"T": f32, "Index": i32}),
]
"""The nodes that each step may read. `part` are the first i % 3 + 1 elements of x."""


def add_loop(
    w: Writer, held: str, nodes: Nodes, *, made: str = "list", total: str = "sum", test: Nodes | None = None,
    start: int = 0, name: str = "loop",
) -> str:  # fmt: skip
    """Adds a loop over the list `held`, whose step makes the list `made` and the sum `total`; returns its name."""
    tests = [("less", "Less", ["i", "n"], {"T": i32})] if test is None else test
    w.function(f"{name}_test", NAMES, {"go": f"{tests[-1][0]}:z:0"}, tests)
    results = {"next": "next:z:0", "same_n": "n", "same_x": "x", "made": made, "total": total}
    w.function(f"{name}_step", NAMES, results, [*CONSTANTS, *nodes])
    return w.node(
        "While", w.constant(start, np.int32), "n", "x", held, w.constant(np.float32(0)), name=name,
        T=list(NAMES.values()), cond=function_attr(f"{name}_test"), body=function_attr(f"{name}_step"),
    )  # fmt: skip


def writer() -> Writer:
    w = Writer()
    w.input("x", (None,))
    w.input("n", (), "i32")
    return w


def reserved(w: Writer, *dims: int, count: str = "n") -> str:
    return w.node("TensorListReserve", w.ints(*dims) if dims else w.constant(-1, np.int32), count, T=None, **LIST)


def empty(w: Writer, *dims: int) -> str:
    shape = w.ints(*dims) if dims else w.constant(-1, np.int32)
    return w.node("EmptyTensorList", shape, w.constant(-1, np.int32), T=None, **LIST)


def joined(w: Writer, held: str) -> None:
    w.node("TensorListConcatV2", held, w.ints(-1), w.constant([], np.int64), T=None, **HELD, name="y")


def session_of(w: Writer, tmp_path: Path, *outputs: str) -> treadle.Session:
    path = tmp_path / "model.pb"
    path.write_bytes(w.bytes())
    return treadle.Session(path, outputs=list(outputs or ("y",)))


def check(session: treadle.Session, n: int, *wanted: Any, x: Array = X) -> None:
    found = list(session.run({"x": x, "n": np.int32(n)}).values())
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
        assert one.shape == np.shape(other)
    assert_native(session)


def parts(n: int) -> list[Array]:
    return [X[: i % 3 + 1] for i in range(n)]


SET: Nodes = [("set", "TensorListSetItem", ["list", "i", "part:output:0"], HELD)]
GROW: Nodes = [(*SET[0][:3], {**HELD, "resize_if_index_out_of_bounds": True})]
PUSH: Nodes = [("set", "TensorListPushBack", ["list", "part:output:0"], HELD)]
FILLS: dict[str, tuple[Nodes, bool]] = {"set": (SET, True), "grow": (GROW, False), "push": (PUSH, False)}


@pytest.mark.parametrize("dims", [(), (-1,)], ids=["unknown rank", "vectors"])
@pytest.mark.parametrize("how", FILLS)
def test_a_loop_fills_a_list_with_items_of_any_size(how: str, dims: tuple[int, ...], tmp_path: Path) -> None:
    nodes, is_reserved = FILLS[how]
    w = writer()
    add_loop(w, reserved(w, *dims) if is_reserved else empty(w, *dims), nodes, made="set:output_handle:0")
    joined(w, "loop:3")
    w.node("TensorListLength", "loop:3", T=None, name="length")
    w.node("TensorListGetItem", "loop:3", w.constant(4, np.int32), w.ints(-1), T=None, **HELD, name="fifth")
    w.node("Identity", "y:1", T=i64, name="lengths")
    session = session_of(w, tmp_path, "y", "lengths", "length", "fifth")
    for n in (5, 9, 40):
        check(session, n, np.concatenate(parts(n)), [i % 3 + 1 for i in range(n)], n, X[:2])
    compiles = session.compiles
    for n in (6, 23, 80):
        check(session, n, np.concatenate(parts(n)), [i % 3 + 1 for i in range(n)], n, X[:2])
    assert session.compiles == compiles


def test_bits_do_not_depend_on_threads(tmp_path: Path) -> None:
    w = writer()
    add_loop(w, empty(w, -1), PUSH, made="set:output_handle:0")
    joined(w, "loop:3")
    session = session_of(w, tmp_path)
    found = [session.run({"x": X, "n": np.int32(50)}, intra_op=k, inter_op=k)["y"] for k in (1, 2, 4)]
    assert {array.tobytes() for array in found} == {found[0].tobytes()}


def test_a_loop_reads_the_items_that_another_one_wrote(tmp_path: Path) -> None:
    w = writer()
    add_loop(w, empty(w, -1), PUSH, made="set:output_handle:0")
    read: Nodes = [
        ("item", "TensorListGetItem", ["list", "i", "any:output:0"], HELD),
        ("add", "Sum", ["item:item:0", "zero:output:0"], {"T": f32, "Tidx": i32, "keep_dims": False}),
        ("total", "AddV2", ["sum", "add:output:0"], {"T": f32}),
    ]
    add_loop(w, "loop:3", read, total="total:z:0", name="second")
    w.node("Identity", "second:4", name="y")
    session = session_of(w, tmp_path)
    for n in (1, 7, 30):
        check(session, n, np.float32(sum(map(np.sum, parts(n)))))


def test_an_iteration_reads_what_the_one_before_wrote(tmp_path: Path) -> None:
    w = writer()
    begun = w.node("TensorListSetItem", reserved(w), w.constant(0, np.int32), "x", T=None, **HELD)
    nodes: Nodes = [
        ("item", "TensorListGetItem", ["list", "before:z:0", "any:output:0"], HELD),
        ("some", "Slice", ["item:item:0", "first:output:0", "one_of:output:0"], {"T": f32, "Index": i32}),
        ("one_of", "Const", [], {"value": np.array([1], np.int32)}),
        ("both", "ConcatV2", ["part:output:0", "some:output:0", "zero:output:0"], {"T": f32, "N": 2, "Tidx": i32}),
        ("set", "TensorListSetItem", ["list", "i", "both:output:0"], HELD),
    ]
    add_loop(w, begun, nodes, made="set:output_handle:0", start=1)
    joined(w, "loop:3")
    session = session_of(w, tmp_path)
    for n in (2, 6, 20):
        items = [X]
        for i in range(1, n):
            items.append(np.concatenate([X[: i % 3 + 1], items[-1][:1]]))
        check(session, n, np.concatenate(items))


STACK: Nodes = [
    ("pop", "TensorListPopBack", ["list", "any:output:0"], HELD),
    ("half", "Mul", ["pop:tensor:0", "factor:output:0"], {"T": f32}),
    ("factor", "Const", [], {"value": np.array(0.5, np.float32)}),
    ("less", "TensorListPushBack", ["pop:output_handle:0", "half:z:0"], HELD),
    ("more", "TensorListPushBack", ["less:output_handle:0", "part:output:0"], HELD),
    ("all", "Sum", ["pop:tensor:0", "zero:output:0"], {"T": f32, "Tidx": i32, "keep_dims": False}),
    ("total", "AddV2", ["sum", "all:output:0"], {"T": f32}),
]


def test_items_are_pushed_and_popped(tmp_path: Path) -> None:
    w = writer()
    begun = w.node("TensorListPushBack", empty(w, -1), "x", T=None, **HELD)
    add_loop(w, begun, STACK, made="more:output_handle:0", total="total:z:0")
    w.node("Identity", "loop:4", name="y")
    w.node("TensorListLength", "loop:3", T=None, name="length")
    session = session_of(w, tmp_path, "y", "length")
    for n in (1, 6, 20):
        held, total = [X], np.float32(0)
        for i in range(n):
            last = held.pop()
            held += [last * np.float32(0.5), X[: i % 3 + 1]]
            total += last.sum()
        check(session, n, total, len(held))


def test_a_loop_ends_once_its_list_is_empty(tmp_path: Path) -> None:
    """Its test reads the length of the list, from which each iteration takes the last item."""
    w = writer()
    given = w.node("TensorListFromTensor", "x", w.ints(), T=None, **HELD)
    nodes: Nodes = [
        ("none", "Const", [], {"value": np.zeros(0, np.int32)}),
        ("pop", "TensorListPopBack", ["list", "none:output:0"], HELD),
        ("twice", "AddV2", ["sum", "sum"], {"T": f32}),
        ("total", "AddV2", ["twice:z:0", "pop:tensor:0"], {"T": f32}),
    ]
    test: Nodes = [
        ("none", "Const", [], {"value": np.array(0, np.int32)}),
        ("length", "TensorListLength", ["list"], {}),
        ("more", "Greater", ["length:length:0", "none:output:0"], {"T": i32}),
    ]
    add_loop(w, given, nodes, made="pop:output_handle:0", total="total:z:0", test=test)
    w.node("Identity", "loop:4", name="y")
    w.node("Identity", "loop:0", T=i32, name="i")
    session = session_of(w, tmp_path, "y", "i")
    for count in (1, 5, 12):
        total = np.float32(0)
        for item in X[:count][::-1]:
            total = 2 * total + item
        check(session, 99, total, count, x=X[:count])


def test_a_second_loop_pops_what_the_first_one_pushed(tmp_path: Path) -> None:
    """As the gradient of a loop does."""
    w = writer()
    push: Nodes = [
        ("row", "Reshape", ["sum", "any:output:0"], {"T": f32, "Tshape": i32}),
        ("set", "TensorListPushBack", ["list", "row:output:0"], HELD),
        ("total", "AddV2", ["sum", "one_more:output:0"], {"T": f32}),
        ("one_more", "Const", [], {"value": np.array(1, np.float32)}),
    ]
    pop: Nodes = [
        ("ones", "Const", [], {"value": np.array([1], np.int32)}),
        ("pop", "TensorListPopBack", ["list", "ones:output:0"], HELD),
        ("item", "Sum", ["pop:tensor:0", "zero:output:0"], {"T": f32, "Tidx": i32, "keep_dims": False}),
        ("twice", "AddV2", ["sum", "sum"], {"T": f32}),
        ("total", "AddV2", ["twice:z:0", "item:output:0"], {"T": f32}),
    ]
    add_loop(w, empty(w, 1), push, made="set:output_handle:0", total="total:z:0")
    add_loop(w, "loop:3", pop, made="pop:output_handle:0", total="total:z:0", name="back")
    w.node("Identity", "back:4", name="y")
    session = session_of(w, tmp_path)
    for n in (1, 3, 10):
        total = 0.0
        for item in range(n)[::-1]:
            total = 2 * total + item
        check(session, n, np.float32(total))


def test_stacked_items_have_one_shape(tmp_path: Path) -> None:
    w = writer()
    nodes: Nodes = [("set", "TensorListPushBack", ["list", "x"], HELD)]
    add_loop(w, empty(w), nodes, made="set:output_handle:0")
    w.node("TensorListStack", "loop:3", w.ints(-1), T=None, **HELD, num_elements=-1, name="y")
    w.node("TensorListGather", "loop:3", w.ints(2, 0), w.ints(-1), T=None, **HELD, name="picked")
    session = session_of(w, tmp_path, "y", "picked")
    for n in (3, 8):
        check(session, n, np.stack([X] * n), np.stack([X] * 2))


def failing(w: Writer, tmp_path: Path, n: int, words: str) -> None:
    session = session_of(w, tmp_path)
    with pytest.raises(TreadleError, match=words) as raised:
        session.run({"x": X, "n": np.int32(n)})
    assert isinstance(raised.value, RunError)


def test_items_that_differ_cannot_be_stacked(tmp_path: Path) -> None:
    w = writer()
    add_loop(w, empty(w, -1), PUSH, made="set:output_handle:0")
    w.node("TensorListStack", "loop:3", w.ints(-1), T=None, **HELD, num_elements=-1, name="y")
    failing(w, tmp_path, 5, "'y'")


def test_no_item_can_be_popped_from_an_empty_list(tmp_path: Path) -> None:
    w = writer()
    nodes: Nodes = [("pop", "TensorListPopBack", ["list", "any:output:0"], HELD)]
    add_loop(w, w.node("TensorListPushBack", empty(w, -1), "x", T=None, **HELD), nodes, made="pop:output_handle:0")
    w.node("TensorListLength", "loop:3", T=None, name="y")
    session = session_of(w, tmp_path)
    check(session, 1, 0)
    failing(w, tmp_path, 2, "'pop'")


@pytest.mark.parametrize("place", [-1, 7])
def test_items_that_are_not_there_cannot_be_read(place: int, tmp_path: Path) -> None:
    w = writer()
    add_loop(w, empty(w, -1), PUSH, made="set:output_handle:0")
    w.node("TensorListGetItem", "loop:3", w.constant(place, np.int32), w.ints(-1), T=None, **HELD, name="y")
    failing(w, tmp_path, 5, "'y'")


def test_items_that_were_never_written_cannot_be_read(tmp_path: Path) -> None:
    w = writer()
    add_loop(w, reserved(w, -1, count=w.constant(9, np.int32)), SET, made="set:output_handle:0")
    w.node("TensorListGetItem", "loop:3", w.constant(7, np.int32), w.ints(-1), T=None, **HELD, name="y")
    failing(w, tmp_path, 5, "'y'")


def test_a_list_of_a_fixed_length_has_no_more_items(tmp_path: Path) -> None:
    w = writer()
    add_loop(w, reserved(w, -1, count=w.constant(4, np.int32)), SET, made="set:output_handle:0")
    w.node("TensorListLength", "loop:3", T=None, name="y")
    session = session_of(w, tmp_path)
    check(session, 3, 4)
    failing(w, tmp_path, 5, "modify element 4 in a list with 4 elements")


def test_items_have_the_declared_shape(tmp_path: Path) -> None:
    w = writer()
    nodes: Nodes = [("set", "TensorListPushBack", ["list", "part:output:0"], HELD)]
    add_loop(w, empty(w, 2), nodes, made="set:output_handle:0")
    w.node("TensorListLength", "loop:3", T=None, name="y")
    failing(w, tmp_path, 5, "incompatible with the list's element shape")


def test_a_list_that_python_needs_is_made_of_its_tensors(tmp_path: Path) -> None:
    """Resizing it runs as a Python step."""
    w = writer()
    add_loop(w, empty(w, -1), PUSH, made="set:output_handle:0")
    joined(w, w.node("TensorListResize", "loop:3", w.constant(4, np.int32), T=None))
    session = session_of(w, tmp_path)
    found = session.run({"x": X, "n": np.int32(6)})["y"]
    np.testing.assert_array_equal(found, np.concatenate(parts(4)))
