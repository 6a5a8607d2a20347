"""The Loop that models with the `onnx` package's reference run: results of the specification, at every rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.expected import reference_results

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def results(shape: list[int], count: int | None, condition: bool | None) -> list[Any]:
    """The last carried value and the stacked ones of a loop that doubles ones and adds 1, up to the fifth iteration."""
    value, tensor = helper.make_tensor_value_info, numpy_tensor
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "s"], ["twice"]),
            helper.make_node("Add", ["twice", "one"], ["next"]),
            helper.make_node("Less", ["i", "four"], ["again"]),
        ],
        "body",
        [value("i", INT64, []), value("on", BOOL, []), value("s", FLOAT, shape)],
        [value("again", BOOL, []), value("next", FLOAT, shape), value("twice", FLOAT, shape)],
        [tensor(np.array(1, np.float32), "one"), tensor(np.array(4), "four")],
    )
    inputs = ["" if count is None else "count", "" if condition is None else "go", "x"]
    graph = helper.make_graph(
        [helper.make_node("Loop", inputs, ["last", "all"], body=body)],
        "loop",
        [value("count", INT64, []), value("go", BOOL, []), value("x", FLOAT, shape)],
        [value("last", FLOAT, None), value("all", FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    feeds = {"count": np.array(count or 0), "go": np.array(bool(condition)), "x": np.ones(shape, np.float32)}
    return reference_results(model, feeds)


def numpy_tensor(array: Any, name: str) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(array, name)


@pytest.mark.parametrize("shape", [[], [3], [2, 3], [1, 2, 2]])
@pytest.mark.parametrize(
    ("count", "condition", "iterations"),
    [(1, None, 1), (3, True, 3), (None, None, 5), (9, True, 5), (3, False, 0), (0, None, 0)],
)
def test_iterations_stack_along_a_new_axis(
    shape: list[int], count: int | None, condition: bool | None, iterations: int
) -> None:
    last, stacked = results(shape, count, condition)
    np.testing.assert_array_equal(last, np.full(shape, 2.0 ** (iterations + 1) - 1, np.float32))
    wanted = [np.full(shape, 2.0 ** (done + 2) - 2) for done in range(iterations)]
    assert (stacked.shape, stacked.dtype) == ((iterations, *shape), np.float32)
    np.testing.assert_array_equal(stacked, np.reshape(wanted, (iterations, *shape)))
