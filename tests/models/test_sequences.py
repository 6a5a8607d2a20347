"""Sequences of tensors in ONNX models: values of the core, also where loops and branches make them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from tests.models.expected import expected_results
from tests.models.small import node
from treadle.errors import ModelError
from treadle.graph.graph import all_nodes

Array = np.ndarray[Any, Any]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
POOLS = {threads: treadle.Pool(intra_op=threads, inter_op=threads) for threads in (1, 2, 5)}
CONSTANTS = {"zero": np.array(0), "one": np.array(1), "last": np.array(-1), "parts": np.array([2, 3])}


def tensor(name: str, kind: int = FLOAT, shape: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, FLOAT, None)


def body(nodes: Sequence[onnx.NodeProto], carried: Sequence[onnx.ValueInfoProto], *outputs: str) -> onnx.GraphProto:
    """Returns the body of a Loop with these carried values, which goes on."""
    formals = [tensor("i", INT64, []), tensor("on", BOOL, []), *carried]
    results = [helper.make_empty_tensor_value_info(name) for name in ("again", *outputs)]
    return helper.make_graph([*nodes, node("Identity", ["on"], "again")], "body", formals, results)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[onnx.ValueInfoProto], *outputs: onnx.ValueInfoProto
) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(array, name) for name, array in CONSTANTS.items()]
    weights.append(numpy_helper.from_array(X[:4, :3].copy(), "weights"))
    graph = helper.make_graph(list(nodes), "sequences", list(inputs), list(outputs), weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def assert_agrees(proto: onnx.ModelProto, feeds: Mapping[str, Array], *, in_core: bool = True) -> None:
    """The results are as expected, with the same bits at all numbers of threads, and without Python."""
    wanted = expected_results(proto, feeds)
    session = treadle.Session(proto.SerializeToString())
    assert all(each.op != "call" for each in all_nodes(session.graph)) == in_core
    found = {threads: session.run(feeds, pool=pool) for threads, pool in POOLS.items()}
    for name, expected in zip(found[1], wanted, strict=True):
        many = isinstance(expected, list)
        for threads in POOLS:
            results, first = found[threads][name], found[1][name]
            assert not many or len(results) == len(expected)
            for result, same, array in zip(
                *((results, first, expected) if many else ([results], [first], [expected])), strict=True
            ):
                assert result.shape == array.shape
                np.testing.assert_allclose(result, array, atol=1e-5)
                assert result.tobytes() == same.tobytes()


def appending(limit: str, *, empty: bool) -> onnx.ModelProto:
    """A Loop that appends its state to a list. The model returns the list's length, its last element and two joins."""
    step = body(
        [
            node("Gather", ["x", "i"], "row", axis=0),
            node("Add", ["row", "s"], "sum"),
            node("Tanh", ["sum"], "next"),
            node("SequenceInsert", ["l", "next"], "longer"),
        ],
        [tensor("s"), sequence("l")],
        "next",
        "longer",
    )
    nodes = [
        node("Shape", ["x"], "sizes"),
        node("Gather", ["sizes", "zero"], "rows", axis=0),
        node("ReduceMax", ["x"], "s0", axes=[0], keepdims=0),
        node("SequenceEmpty", [], "l0", dtype=FLOAT) if empty else node("SequenceConstruct", ["s0", "s0"], "l0"),
        node("Loop", [limit, "", "s0", "l0"], "state", "list", body=step),
        node("ConcatFromSequence", ["list"], "stacked", axis=1, new_axis=1),
        node("ConcatFromSequence", ["list"], "joined", axis=0),
        node("SequenceLength", ["list"], "count"),
        node("SequenceAt", ["list", "last"], "end"),
    ]
    inputs = [tensor("x", FLOAT, ["n", 4]), *([tensor("m", INT64, [])] if limit == "m" else [])]
    outputs = [tensor(name) for name in ("state", "stacked", "joined", "end")]
    return model(nodes, inputs, *outputs, tensor("count", INT64))


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("limit", ["rows", "m"])
def test_a_loop_appends_to_a_list(limit: str, empty: bool) -> None:
    feeds = {"x": X} | ({"m": np.array(3)} if limit == "m" else {})
    assert_agrees(appending(limit, empty=empty), feeds)


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("shape", [[5, 4], ["rows", "columns"]])
def test_a_loop_reads_the_parts_of_a_tensor_and_appends_twice(shape: list[Any], keep: int) -> None:
    step = body(
        [
            node("SequenceAt", ["columns", "i"], "column"),
            node("Add", ["column", "s"], "next"),
            node("SequenceInsert", ["l", "next"], "one_more"),
            node("SequenceInsert", ["one_more", "column"], "two_more"),
        ],
        [tensor("s"), sequence("l")],
        "next",
        "two_more",
    )
    nodes = [
        node("SplitToSequence", ["x"], "columns", axis=1, keepdims=keep),
        node("SequenceLength", ["columns"], "count"),
        node("ReduceSum", ["x", "axes"], "s0", keepdims=keep),
        node("SequenceEmpty", [], "l0"),
        node("Loop", ["count", "", "s0", "l0"], "state", "list", body=step),
        node("ConcatFromSequence", ["list"], "y", axis=0),
    ]
    proto = model(nodes, [tensor("x", FLOAT, shape)], tensor("state"), tensor("y"))
    proto.graph.initializer.append(numpy_helper.from_array(np.array([1]), "axes"))
    assert_agrees(proto, {"x": X})


def test_a_list_that_a_body_gives_as_it_takes_it_is_captured() -> None:
    step = body(
        [node("SequenceAt", ["l", "i"], "item"), node("Add", ["item", "s"], "next"), node("Identity", ["l"], "same")],
        [tensor("s"), sequence("l")],
        "next",
        "same",
    )
    nodes = [
        node("SplitToSequence", ["x"], "rows", axis=0, keepdims=0),
        node("SequenceAt", ["rows", "zero"], "s0"),
        node("SequenceLength", ["rows"], "count"),
        node("Loop", ["count", "", "s0", "rows"], "y", "list", body=step),
    ]
    assert_agrees(model(nodes, [tensor("x", FLOAT, ["n", 4])], tensor("y"), sequence("list")), {"x": X})


def test_positions_that_are_known_need_no_equal_shapes() -> None:
    nodes = [
        node("SplitToSequence", ["x", "parts"], "a", axis=0),
        node("SequenceInsert", ["a", "x", "zero"], "b"),
        node("SequenceInsert", ["b", "x"], "c"),
        node("SequenceErase", ["c", "one"], "d"),
        node("SequenceErase", ["d"], "e"),
        node("SequenceAt", ["e", "last"], "item"),
        node("ConcatFromSequence", ["e"], "y", axis=0),
        node("SequenceLength", ["c"], "count"),
    ]
    outputs = [sequence("c"), tensor("item"), tensor("y"), tensor("count", INT64)]
    assert_agrees(model(nodes, [tensor("x", FLOAT, [5, 4])], *outputs), {"x": X})


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("shape", [[5, 4], ["rows", "columns"]])
def test_a_map_runs_its_body_for_each_element(shape: list[Any], split: bool) -> None:
    pytest.importorskip("onnxruntime", reason="the reference does not find weights from around a SequenceMap")
    each = helper.make_graph(
        [node("MatMul", ["item", "weights"], "product"), node("Add", ["product", "bias"], "sum")],
        "each",
        [tensor("item"), tensor("bias")],
        [tensor("sum")],
    )
    nodes = [
        node("ReduceMax", ["weights"], "most", axes=[0], keepdims=1),
        node("SplitToSequence", ["x", "parts"] if split else ["x"], "a", axis=0),
        node("SequenceMap", ["a", "most"], "b", body=each),
        node("ConcatFromSequence", ["b"], "y", axis=0),
    ]
    assert_agrees(model(nodes, [tensor("x", FLOAT, shape)], tensor("y"), sequence("b")), {"x": X})


@pytest.mark.parametrize("taken", [True, False])
def test_branches_give_lists(taken: bool) -> None:
    yes = helper.make_graph([node("SequenceInsert", ["a", "x"], "longer")], "yes", [], [sequence("longer")])
    no = helper.make_graph(
        [node("Neg", ["x"], "minus"), node("SequenceConstruct", ["minus", "x", "x"], "other")],
        "no",
        [],
        [sequence("other")],
    )
    nodes = [
        node("SequenceConstruct", ["x", "x"], "a"),
        node("If", ["c"], "list", then_branch=yes, else_branch=no),
        node("ConcatFromSequence", ["list"], "y", axis=1),
    ]
    proto = model(nodes, [tensor("x", FLOAT, ["n", 4]), tensor("c", BOOL, [])], tensor("y"))
    assert_agrees(proto, {"x": X, "c": np.array(taken)})


def test_tensors_may_be_named_like_elements_of_a_list() -> None:
    """A branch reads the list `a` and the tensor `a[0]`."""
    yes = helper.make_graph(
        [node("SequenceAt", ["a", "last"], "item"), node("Sub", ["item", "a[0]"], "yes")], "yes", [], [tensor("yes")]
    )
    no = helper.make_graph(
        [node("SequenceAt", ["a", "zero"], "item"), node("Mul", ["item", "a[0]"], "no")], "no", [], [tensor("no")]
    )
    nodes = [
        node("Exp", ["x"], "a[0]"),
        node("Neg", ["x"], "minus"),
        node("SequenceConstruct", ["minus", "x"], "a"),
        node("If", ["c"], "y", then_branch=yes, else_branch=no),
    ]
    proto = model(nodes, [tensor("x", FLOAT, ["n", 4]), tensor("c", BOOL, [])], tensor("y"))
    for taken in (True, False):
        assert_agrees(proto, {"x": X, "c": np.array(taken)})


def test_elements_of_unequal_shapes_leave_a_loop_to_the_reference() -> None:
    step = body(
        [node("Concat", ["s", "x"], "next", axis=0), node("SequenceInsert", ["l", "next"], "longer")],
        [tensor("s"), sequence("l")],
        "next",
        "longer",
    )
    nodes = [
        node("SequenceEmpty", [], "l0"),
        node("Loop", ["m", "", "x", "l0"], "state", "list", body=step),
        node("ConcatFromSequence", ["list"], "y", axis=0),
    ]
    proto = model(nodes, [tensor("x", FLOAT, ["n", 4]), tensor("m", INT64, [])], tensor("y"), tensor("state"))
    assert_agrees(proto, {"x": X, "m": np.array(3)}, in_core=False)


def test_a_position_out_of_range_is_a_fault() -> None:
    nodes = [node("SequenceConstruct", ["x"], "a"), node("SequenceAt", ["a", "one"], "y")]
    proto = model(nodes, [tensor("x", FLOAT, [5, 4])], tensor("y"))
    with pytest.raises(ModelError, match="position 1 is out of range for a sequence of 1 elements; wanted -1 to 0"):
        _ = treadle.Session(proto.SerializeToString()).graph


def joined(listed: str, result: str) -> onnx.NodeProto:
    return node("ConcatFromSequence", [listed], result, axis=0)


def test_lists_pass_through_nested_loops() -> None:
    """Each loop appends what the loop inside it has made."""
    depth = 30
    inner: onnx.NodeProto | None = None
    for level in range(depth):
        made = f"made{level}"
        work = [node("Tanh", ["x"], made)] if inner is None else [inner, joined(f"list{level - 1}", made)]
        step = helper.make_graph(
            [
                *work,
                node("SequenceInsert", [f"l{level}", made], f"longer{level}"),
                node("Identity", [f"on{level}"], f"again{level}"),
            ],
            "body",
            [tensor(f"i{level}", INT64, []), tensor(f"on{level}", BOOL, []), sequence(f"l{level}")],
            [helper.make_empty_tensor_value_info(f"{name}{level}") for name in ("again", "longer")],
        )
        inner = node("Loop", ["one", "", "none"], f"list{level}", body=step)
    assert inner is not None
    nodes = [node("SequenceEmpty", [], "none"), inner, joined(f"list{depth - 1}", "y")]
    assert_agrees(model(nodes, [tensor("x", FLOAT, [5, 4])], tensor("y")), {"x": X})


def test_a_loop_reads_the_list_that_it_appends_to() -> None:
    """The list is a value that grows: each iteration appends what it makes of two of its elements."""
    step = body(
        [
            node("SequenceAt", ["l", "last"], "newest"),
            node("SequenceAt", ["l", "i"], "older"),
            node("Add", ["newest", "older"], "sum"),
            node("Tanh", ["sum"], "next"),
            node("SequenceInsert", ["l", "next"], "longer"),
        ],
        [sequence("l")],
        "longer",
    )
    nodes = [
        node("SequenceConstruct", ["x", "x"], "l0"),
        node("Loop", ["m", "", "l0"], "list", body=step),
        node("ConcatFromSequence", ["list"], "y", axis=0, new_axis=1),
    ]
    proto = model(nodes, [tensor("x", FLOAT, ["n", 4]), tensor("m", INT64, [])], tensor("y"))
    for count in (1, 5, 40):
        assert_agrees(proto, {"x": X, "m": np.array(count)})
