"""TensorScatter of opset 24, which updates the cache of a decoder: kernels only, as the standard's reference has it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.contrib import Array, OneNode, close, some

PAST, UPDATE = some(2, 3, 8, 4), some(2, 3, 2, 4, seed=1)


def node(starts: tuple[int, ...] | None, axis: int = -2, mode: str = "linear") -> OneNode:
    past, update = (np.moveaxis(array, 2, axis) for array in (PAST, UPDATE))
    operands = {"past": past, "update": update, "starts": None if starts is None else np.array(starts, np.int64)}
    return OneNode("TensorScatter", operands, attributes={"axis": axis, "mode": mode}, domain="", opset=24)


def wanted(one: OneNode) -> Array:
    (found,) = ReferenceEvaluator(onnx.load_from_string(one.model(is_open=False))).run(None, one.feeds())
    return np.asarray(found)


@pytest.mark.parametrize("axis", [-2, 1, 3])
@pytest.mark.parametrize(
    ("starts", "mode"), [(None, "linear"), ((0, 5), "linear"), ((6, 3), "linear"), ((7, 2), "circular")]
)
def test_updates_begin_where_each_text_ends(starts: tuple[int, ...] | None, mode: str, axis: int) -> None:
    one = node(starts, axis, mode)

    close(one.run(), [wanted(one)])
    close(one.run(is_open=True), [wanted(one)])


def test_an_update_beyond_the_end_is_an_error() -> None:
    one = node((0, 7))

    with pytest.raises(treadle.errors.RunError, match="out of range"):
        treadle.Session(one.model(is_open=False)).run(one.feeds())
