"""Scan by the reference: of operator set 8, which has a batch and lengths, and of empty sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import treadle
from treadle.frontends.onnx.reference_scan import reference_scan

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
STATE = np.float32([[0, 1], [5, 5]])
X = np.arange(12, dtype=np.float32).reshape(2, 3, 2)


def sums(*, with_lengths: bool, back: int | None) -> bytes:
    """The last and all partial sums of `x` along its second axis, from `state` on."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["sum", "item"], ["next"]), helper.make_node("Identity", ["next"], ["out"])],
        "body",
        [value("sum", FLOAT, [2]), value("item", FLOAT, [2])],
        [value("next", FLOAT, [2]), value("out", FLOAT, [2])],
    )
    options: dict[str, Any] = {} if back is None else {"directions": [back]}
    names = ["lengths" if with_lengths else "", "state", "x"]
    node = helper.make_node("Scan", names, ["last", "all"], body=body, num_scan_inputs=1, **options)
    inputs = [value("lengths", INT64, [2])] if with_lengths else []
    inputs += [value("state", FLOAT, [2, 2]), value("x", FLOAT, [2, 3, 2])]
    outputs = [value("last", FLOAT, [2, 2]), value("all", FLOAT, [2, 3, 2])]
    graph = helper.make_graph([node], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=8)
    return bytes(model.SerializeToString())


def wanted(lengths: list[int], *, back: bool) -> tuple[Any, Any]:
    every = np.zeros_like(X)
    for row, length in enumerate(lengths):
        items = X[row, :length][::-1] if back else X[row, :length]
        every[row, :length] = STATE[row] + np.cumsum(items, axis=0)
    ends = [every[row, length - 1] if length else STATE[row] for row, length in enumerate(lengths)]
    return np.stack(ends), every


@pytest.mark.parametrize("back", [None, 0, 1])
@pytest.mark.parametrize("lengths", [None, [2, 3]])
def test_each_sequence_of_the_batch_is_scanned(lengths: list[int] | None, back: int | None) -> None:
    model = sums(with_lengths=lengths is not None, back=back)
    feeds = {"state": STATE, "x": X} | ({} if lengths is None else {"lengths": np.array(lengths)})
    last, every = wanted(lengths or [3, 3], back=bool(back))
    for threads in (1, 2):
        found = treadle.Session(model).run(feeds, intra_op=threads)
        assert np.array_equal(found["last"], last)
        assert np.array_equal(found["all"], every)
    ort = pytest.importorskip("onnxruntime")
    real = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
    assert all(np.array_equal(one, other) for one, other in zip(real, (last, every), strict=True))


@pytest.mark.parametrize("lengths", [[0, 2], [0, 0]])
def test_empty_sequences_keep_their_states(lengths: list[int]) -> None:
    """The elements of their outputs are 0, as those behind the end of any sequence. ONNX Runtime refuses them."""
    last, every = wanted(lengths, back=False)
    model = sums(with_lengths=True, back=None)
    found = treadle.Session(model).run({"state": STATE, "x": X, "lengths": np.array(lengths)})
    assert np.array_equal(found["last"], last)
    assert np.array_equal(found["all"], every)


def test_no_iteration_gives_no_items() -> None:
    """Of outputs whose sizes are declared they have these sizes."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["sum", "item"], ["next"]), helper.make_node("Shape", ["next"], ["shape"])],
        "body",
        [value("sum", FLOAT, [2]), value("item", FLOAT, [2])],
        [value("next", FLOAT, [2]), value("shape", INT64, [1])],
    )
    scan = helper.make_node("Scan", ["state", "x"], ["last", "shapes"], body=body, num_scan_inputs=1)
    inputs = [value("state", FLOAT, [2]), value("x", FLOAT, [None, 2])]
    outputs = [value("last", FLOAT, [2]), value("shapes", INT64, [None, 1])]
    graph = helper.make_graph([scan], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    state = np.float32([5, 5])
    for rows in (0, 2):
        feeds = {"state": state, "x": X[0, :rows]}
        results: Any = ReferenceEvaluator(model, new_ops=[reference_scan()]).run(None, feeds)
        last, shapes = results
        assert np.array_equal(last, state + X[0, :rows].sum(axis=0))
        assert (shapes.shape, shapes.dtype, shapes.tolist()) == ((rows, 1), np.int64, [[2]] * rows)
        found = treadle.Session(model).run(feeds)
        assert np.array_equal(found["shapes"], shapes)
        assert np.array_equal(found["last"], last)
