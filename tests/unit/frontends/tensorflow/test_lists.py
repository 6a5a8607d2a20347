"""Lists of tensors in frozen graphs: TensorFlow 2's TensorList family, and TensorFlow 1's TensorArray."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr
from treadle.dtypes import boolean, f32, i32, string
from treadle.errors import RunError
from treadle.frontends.tensorflow.control import ListLoop, Loop
from treadle.frontends.tensorflow.importer import import_graph
from treadle.graph.template import Template

X = np.arange(12, dtype=np.float32).reshape(4, 3) - 5


def unknown(w: Writer) -> str:
    """The shape of which nothing is known."""
    return w.constant(-1, np.int32)


def reserved(w: Writer, count: int = 3, shape: str | None = None) -> str:
    return w.node("TensorListReserve", shape or unknown(w), w.constant(count, np.int32), T=None, element_dtype=f32)


def written(w: Writer, held: str, index: int, value: str, **attrs: Any) -> str:
    return w.node("TensorListSetItem", held, w.constant(index, np.int32), value, T=None, element_dtype=f32, **attrs)


def item(w: Writer, held: str, index: int, shape: str | None = None, name: str = "y") -> str:
    reads = (held, w.constant(index, np.int32), shape or unknown(w))
    return w.node("TensorListGetItem", *reads, T=None, element_dtype=f32, name=name)


def stacked(w: Writer, held: str, count: int = -1) -> str:
    return w.node("TensorListStack", held, unknown(w), T=None, element_dtype=f32, num_elements=count, name="y")


def result(w: Writer, *outputs: str) -> list[np.ndarray]:
    session = treadle.Session(w.bytes(), outputs=list(outputs or ("y",)))
    return list(session.run({tensor.name: X for tensor in session.inputs}).values())


def listed(w: Writer) -> str:
    return w.node("TensorListFromTensor", "x", unknown(w), T=None, element_dtype=f32)


def test_a_list_is_filled_and_stacked() -> None:
    """
    Writes leave their operand unchanged; unwritten items are zeros where the shape is known.
    """
    w = Writer()
    x = w.input("x", (4, 3))
    first = written(w, reserved(w), 2, x)
    second = written(w, first, 0, w.node("Neg", x))
    stacked(w, second)
    w.node("TensorListStack", first, unknown(w), T=None, element_dtype=f32, num_elements=3, name="z")

    y, z = result(w, "y", "z")

    np.testing.assert_array_equal(y, [-X, 0 * X, X])
    np.testing.assert_array_equal(z, [0 * X, 0 * X, X])


def test_ops_on_items_of_a_list_are_compiled() -> None:
    """
    For an item whose shape is in the file, and for one whose shape only the run knows.
    """
    w = Writer()
    w.input("x", (4, 3))
    held = listed(w)
    w.node("Neg", item(w, held, 3, w.ints(3), "last"), name="known")
    w.node("Neg", item(w, held, 1, name="second"), name="open")

    known, found = result(w, "known", "open")

    np.testing.assert_array_equal(known, -X[3])
    np.testing.assert_array_equal(found, -X[1])


def test_tensor_list_ops_match_numpy() -> None:
    """
    Length, element shape, push, pop, gather, scatter, concat, split and resize.
    """
    w = Writer()
    x = w.input("x", (4, 3))
    how: dict[str, Any] = {"T": None, "element_dtype": f32}
    held = listed(w)
    w.node("TensorListLength", held, T=None, name="length")
    w.node("TensorListElementShape", reserved(w, 1, w.ints(-1, 3)), T=None, shape_type=i32, name="shape")
    empty = w.node("EmptyTensorList", unknown(w), w.constant(-1, np.int32), **how)
    pushed = w.node("TensorListPushBack", w.node("TensorListPushBack", empty, x, **how), w.node("Neg", x), **how)
    popped = w.node("TensorListPopBack", pushed, unknown(w), **how)
    w.node("Identity", f"{popped}:1", name="popped")
    w.node("TensorListStack", popped, unknown(w), **how, name="left")
    w.node("TensorListGather", held, w.ints(3, 0), unknown(w), **how, name="gathered")
    scattered = w.node("TensorListScatterV2", x, w.ints(3, 1, 0, 2), unknown(w), w.constant(5, np.int32), **how)
    w.node("TensorListStack", scattered, unknown(w), **how, name="scattered")
    parts = w.node("TensorListSplit", x, unknown(w), w.constant([1, 3], np.int64), **how)
    w.node("TensorListConcatV2", parts, unknown(w), w.constant([], np.int64), **how, name="joined")
    w.node("Identity", "joined:1", T=None, name="lengths")
    longer = w.node("TensorListResize", held, w.constant(5, np.int32), T=None)
    w.node("TensorListStack", longer, unknown(w), **how, name="longer")
    both = w.node("TensorListConcatLists", held, popped, **how)
    w.node("TensorListLength", both, T=None, name="both")

    names = ("length", "shape", "popped", "left", "gathered", "scattered", "joined", "lengths", "longer", "both")
    found = dict(zip(names, result(w, *names), strict=True))

    assert found["length"] == 4
    assert found["both"] == 5
    assert found["shape"].tolist() == [-1, 3]
    assert found["lengths"].tolist() == [1, 3]
    np.testing.assert_array_equal(found["popped"], -X)
    np.testing.assert_array_equal(found["left"], [X])
    np.testing.assert_array_equal(found["gathered"], X[[3, 0]])
    np.testing.assert_array_equal(found["scattered"], np.vstack([X[[2, 1, 3, 0]], np.zeros((1, 3), np.float32)]))
    np.testing.assert_array_equal(found["joined"], X)
    np.testing.assert_array_equal(found["longer"][4], [0, 0, 0])


MISTAKES = {
    "element 9 in a list with 4 elements": lambda w: item(w, listed(w), 9),
    "element -1 in a list with 4 elements": lambda w: item(w, listed(w), -1),
    "never written": lambda w: item(w, reserved(w), 1),
    "modify element 3 in a list with 3 elements": lambda w: stacked(w, written(w, reserved(w), 3, "x")),
    "incompatible with the list's element shape": lambda w: stacked(w, written(w, reserved(w, 3, w.ints(2)), 0, "x")),
    "expected a list with 7 elements": lambda w: stacked(w, listed(w), 7),
    "empty list": lambda w: stacked(w, reserved(w, 0)),
    "pop from an empty list": lambda w: w.node(
        "Identity", w.node("TensorListPopBack", reserved(w, 0), unknown(w), T=None, element_dtype=f32) + ":1", name="y"
    ),
    "num_elements": lambda w: stacked(w, reserved(w, -2)),
    "wanted a list of tensors": lambda w: stacked(w, "x"),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_errors_of_lists_name_the_node(words: str) -> None:
    """
    An index out of range, an unwritten item, a wrong shape: nothing is clamped.
    """
    w = Writer()
    w.input("x", (4, 3))
    MISTAKES[words](w)
    with pytest.raises(RunError, match=rf"(?s)node '.*{words}"):
        result(w)


def mapped() -> Writer:
    """y = 2 * x + 1, row by row: what map_fn is frozen to with lower_control_flow=False."""
    w = Writer()
    w.function("test", {"i": i32, "n": i32, "out": string, "rows": string}, {"go": "less:z:0"}, [
        ("less", "Less", ["i", "n"], {"T": i32}),
    ])  # fmt: skip
    w.function(
        "step", {"i": i32, "n": i32, "out": string, "rows": string},
        {"i1": "next:z:0", "n1": "n", "out1": "same:output:0", "rows1": "rows"},
        [
            ("one", "Const", [], {"value": np.array(1, np.int32)}),
            ("two", "Const", [], {"value": np.array(2, np.float32)}),
            ("any", "Const", [], {"value": np.array(-1, np.int32)}),
            ("row", "TensorListGetItem", ["rows", "i", "any:output:0"], {"element_dtype": f32}),
            ("double", "Mul", ["row:item:0", "two:output:0"], {"T": f32}),
            ("add", "Add", ["double:z:0", "row:item:0"], {"T": f32}),
            ("set", "TensorListSetItem", ["out", "i", "add:z:0"], {"element_dtype": f32}),
            ("same", "Identity", ["set:output_handle:0"], {"T": string}),
            ("next", "Add", ["i", "one:output:0"], {"T": i32}),
        ],
    )  # fmt: skip
    w.input("x", (None, 3))
    count = w.node("StridedSlice", w.node("Shape", "x", out_type=i32), w.ints(0), w.ints(1), w.ints(1), T=i32,
                   shrink_axis_mask=1)  # fmt: skip
    out = w.node("TensorListReserve", unknown(w), count, T=None, element_dtype=f32)
    w.node("StatelessWhile", w.constant(0, np.int32), count, out, listed(w), name="loop", T=[i32, i32, string, string],
           cond=function_attr("test"), body=function_attr("step"))  # fmt: skip
    stacked(w, "loop:2")
    return w


CORE = "core"


def loop_of(w: Writer, shape: tuple[int, ...] = (4, 3)) -> Any:
    """What runs the loop of the graph: the type of a Python step, or CORE."""
    found = import_graph(w.graph, "the test", outputs=["loop"])
    graph = found.build([(f32, shape)]) if isinstance(found, Template) else found
    for node in graph.nodes:
        if node.op == "loop":
            return CORE
        if node.attrs.get("label") in ("StatelessWhile", "_Frame"):
            return type(node.attrs["function"])
    raise AssertionError("the graph has no loop")


@pytest.mark.parametrize("count", [0, 1, 4, 100])
def test_a_loop_over_lists_matches_numpy(count: int) -> None:
    """
    The native core runs it: items that are read are those of a sliced value, those that are written are stacked.
    """
    x = np.random.default_rng(1).standard_normal((count, 3)).astype(np.float32)
    session = treadle.Session(mapped().bytes(), outputs=["y"])
    if count:
        np.testing.assert_array_equal(session.run({"x": x})["y"], 3 * x)
    else:
        with pytest.raises(RunError, match="empty list"):
            session.run({"x": x})
    assert loop_of(mapped(), (count, 3)) == CORE


@pytest.mark.parametrize(
    ("op", "inputs"), [("Sub", ["n", "one"]), ("AddV2", ["n", "minus"]), ("Add", ["minus", "n"]), ("Sub", ["one", "n"])]
)
def test_items_at_an_offset_of_a_variable_are_read_by_the_loop(op: str, inputs: list[str]) -> None:
    """
    The index is a variable plus or minus a constant; a constant minus a variable is computed by the step.
    """
    w = mapped()
    step = next(function for function in w.graph.library.function if function.signature.name == "step")
    number = step.node_def.add(
        name="number", op=op, input=[each if each == "n" else f"{each}:output:0" for each in inputs]
    )
    number.attr["T"].type = 3
    minus = step.node_def.add(name="minus", op="Const")
    minus.attr["value"].CopyFrom(next(node for node in step.node_def if node.name == "any").attr["value"])
    last = step.node_def.add(name="last", op="TensorListGetItem", input=["rows", "number:z:0", "any:output:0"])
    last.attr["element_dtype"].type = 1
    next(node for node in step.node_def if node.name == "add").input[1] = "last:item:0"
    session = treadle.Session(w.bytes(), outputs=["y"])

    if inputs[0] != "one":
        np.testing.assert_array_equal(session.run({"x": X})["y"], 2 * X + X[3])
        assert loop_of(w) is ListLoop
    else:
        with pytest.raises(RunError, match="Trying to access element -3 in a list with 4 elements"):
            session.run({"x": X})
        assert loop_of(w) is Loop


def test_a_step_that_reads_its_own_writes_runs_whole() -> None:
    """
    Such a step cannot be split from its lists.
    """
    w = mapped()
    step = next(function for function in w.graph.library.function if function.signature.name == "step")
    again = step.node_def.add(name="again", op="TensorListGetItem", input=["set:output_handle:0", "i", "any:output:0"])
    again.attr["element_dtype"].type = 1
    twice = step.node_def.add(name="twice", op="Add", input=["again:item:0", "again:item:0"])
    twice.attr["T"].type = 1
    last = step.node_def.add(name="last", op="TensorListSetItem", input=["set:output_handle:0", "i", "twice:z:0"])
    last.attr["element_dtype"].type = 1
    step.ret["out1"] = "last:output_handle:0"

    np.testing.assert_array_equal(treadle.Session(w.bytes(), outputs=["y"]).run({"x": X})["y"], 6 * X)
    assert loop_of(w) is Loop


def array(w: Writer, count: int = 3, **attrs: Any) -> tuple[str, str]:
    """A TensorArray of TensorFlow 1: its handle and its flow."""
    name = w.node("TensorArrayV3", w.constant(count, np.int32), T=None, dtype=f32, **attrs)
    return name, f"{name}:1"


def put(w: Writer, handle: str, flow: str, index: int, value: str) -> str:
    return w.node("TensorArrayWriteV3", handle, w.constant(index, np.int32), value, flow)


def taken(w: Writer, handle: str, flow: str, index: int, name: str = "") -> str:
    return w.node("TensorArrayReadV3", handle, w.constant(index, np.int32), flow, T=None, dtype=f32, name=name)


def test_an_array_of_tensorflow_1_is_written_and_read() -> None:
    """
    With scatter, gather, size, split and concat; the flow orders them.
    """
    w = Writer()
    x = w.input("x", (4, 3))
    handle, flow = array(w, 4)
    full = w.node("TensorArrayScatterV3", handle, w.ints(2, 0, 1, 3), x, flow)
    w.node("TensorArrayGatherV3", handle, w.ints(0, 1, 2, 3), w.node("Identity", full), T=None, dtype=f32, name="all")
    w.node("TensorArraySizeV3", handle, full, T=None, name="size")
    other, begin = array(w, 2)
    split = w.node("TensorArraySplitV3", other, x, w.constant([3, 1], np.int64), begin)
    w.node("TensorArrayConcatV3", other, split, T=None, dtype=f32, name="joined")
    w.node("Identity", "joined:1", T=None, name="lengths")
    third, start = array(w, 2)
    taken(w, third, put(w, third, start, 1, x), 1, "read")

    whole, size, joined, lengths, read = result(w, "all", "size", "joined", "lengths", "read")

    np.testing.assert_array_equal(whole, X[[1, 2, 0, 3]])
    np.testing.assert_array_equal(joined, X)
    np.testing.assert_array_equal(read, X)
    assert (size, lengths.tolist()) == (4, [3, 1])


def read_twice(w: Writer) -> str:
    handle, flow = array(w)
    flow = put(w, handle, flow, 0, "x")
    once = taken(w, handle, flow, 0)
    return w.node("Add", once, taken(w, handle, flow, 0), name="y")


def written_twice(w: Writer) -> str:
    handle, flow = array(w)
    return taken(w, handle, put(w, handle, put(w, handle, flow, 0, "x"), 0, "x"), 0, "y")


def too_far(w: Writer) -> str:
    handle, flow = array(w)
    return taken(w, handle, put(w, handle, flow, 5, "x"), 5, "y")


def unwritten(w: Writer) -> str:
    handle, flow = array(w)
    return taken(w, handle, flow, 1, "y")


def another_shape(w: Writer) -> str:
    handle, flow = array(w, identical_element_shapes=True)
    flow = put(w, handle, flow, 0, "x")
    return taken(w, handle, put(w, handle, flow, 1, w.constant(np.float32(1))), 0, "y")


OF_ARRAYS = {
    "cleared after a previous read": read_twice,
    "already been written": written_twice,
    "index 5 but array is not resizeable and size is: 3": too_far,
    "never written": unwritten,
    "incompatible": another_shape,
}


@pytest.mark.parametrize("words", OF_ARRAYS)
def test_an_array_of_tensorflow_1_is_written_once_and_read_once(words: str) -> None:
    """
    As in TensorFlow: a read removes the element, and a second write raises.
    """
    w = Writer()
    w.input("x", (4, 3))
    OF_ARRAYS[words](w)
    with pytest.raises(RunError, match=words):
        result(w)


def test_an_array_may_grow_and_keep_its_elements() -> None:
    """
    dynamic_size, and clear_after_read=False.
    """
    w = Writer()
    w.input("x", (4, 3))
    handle, flow = array(w, 0, dynamic_size=True, clear_after_read=False)
    flow = put(w, handle, flow, 2, "x")
    w.node("Add", taken(w, handle, flow, 2), taken(w, handle, flow, 2), name="y")
    w.node("TensorArraySizeV3", handle, flow, T=None, name="size")

    y, size = result(w, "y", "size")

    np.testing.assert_array_equal(y, 2 * X)
    assert size == 3


def accumulated() -> Writer:
    """The sums of the rows so far, as TensorFlow 1 writes them to a TensorArray in a loop of frames."""
    w = Writer()
    x, start = w.input("x", (4, 3)), w.constant(np.zeros(3, np.float32))
    rows, row_flow = array(w, 4)
    sums, sum_flow = array(w, 4)
    filled = w.node("TensorArrayScatterV3", rows, w.ints(0, 1, 2, 3), x, row_flow)
    how = {"frame_name": "loop", "parallel_iterations": 10}
    variables = {"i": (w.constant(0, np.int32), i32), "a": (start, f32), "flow": (sum_flow, f32)}
    for name, (first, dtype) in variables.items():
        w.node("Enter", first, name=f"enter_{name}", T=dtype, is_constant=False, **how)
    for name, same in {"rows": rows, "filled": filled, "sums": sums}.items():
        w.node("Enter", same, name=name, T=f32 if name == "filled" else string, is_constant=True, **how)
    for name, (_, dtype) in variables.items():
        w.node("Merge", f"enter_{name}", f"next_{name}", name=f"merge_{name}", T=dtype, N=2)
    w.node("Enter", w.constant(4, np.int32), name="four", T=i32, is_constant=True, **how)
    w.node("LoopCond", w.node("Less", "merge_i", "four", T=i32), name="test", T=None)
    for name, (_, dtype) in variables.items():
        w.node("Switch", f"merge_{name}", "test", name=f"switch_{name}", T=dtype)
    row = w.node("TensorArrayReadV3", "rows", "switch_i:1", "filled", T=None, dtype=f32)
    total = w.node("Add", "switch_a:1", row)
    flow = w.node("TensorArrayWriteV3", "sums", "switch_i:1", total, w.node("Identity", "switch_flow:1"))
    one = w.constant(1, np.int32)
    steps = {"i": w.node("Add", "switch_i:1", one, T=i32), "a": total, "flow": flow}
    for name, step in steps.items():
        w.node("NextIteration", step, name=f"next_{name}", T=variables[name][1])
    w.node("Exit", "switch_flow", name="loop")
    w.node("TensorArrayGatherV3", sums, w.ints(0, 1, 2, 3), "loop", T=None, dtype=f32, name="y")
    return w


def test_a_loop_of_tensorflow_1_collects_in_an_array() -> None:
    """
    A frame whose flow is a list.
    """
    np.testing.assert_array_equal(result(accumulated())[0], np.cumsum(X, axis=0))
    assert loop_of(accumulated()) == CORE


def test_runs_do_not_share_lists() -> None:
    """
    Each run creates its lists, so elements cleared by a read exist again in the next run.
    """
    session = treadle.Session(accumulated().bytes(), outputs=["y"])
    for factor in (1, 2, 3):
        np.testing.assert_array_equal(session.run({"x": factor * X})["y"], np.cumsum(factor * X, axis=0))


def test_a_branch_may_hold_a_list() -> None:
    """
    The taken side writes to it.
    """
    w = Writer()
    x, flag = w.input("x", (4, 3)), w.input("flag", (), "bool")
    first = reserved(w)
    w.node("Switch", first, flag, name="list", T=string)
    w.node("Switch", x, flag, name="value")
    no = w.node("TensorListSetItem", "list", w.constant(0, np.int32), "value", T=None, element_dtype=f32)
    yes = w.node("TensorListSetItem", "list:1", w.constant(2, np.int32), "value:1", T=None, element_dtype=f32)
    stacked(w, w.node("Merge", no, yes, T=string, N=2))
    session = treadle.Session(w.bytes(), outputs=["y"])

    np.testing.assert_array_equal(session.run({"x": X, "flag": np.array(True)})["y"], [0 * X, 0 * X, X])
    np.testing.assert_array_equal(session.run({"x": X, "flag": np.array(False)})["y"], [X, 0 * X, 0 * X])
    assert boolean.numpy == session.inputs[1].dtype
