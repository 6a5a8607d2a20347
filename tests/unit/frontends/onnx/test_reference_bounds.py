"""What the reference implementation may take."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import treadle
from tests.models import small
from treadle.errors import MemoryLimitError, TreadleError


def roi_align(**attributes: int) -> onnx.ModelProto:
    writer = small.ModelWriter()
    rois, batch = writer.constant(np.array([[0, 0, 1, 1]], np.float32)), writer.constant(np.array([0]))
    writer.op("RoiAlign", "x", rois, batch, **attributes)
    return writer.model({"x": (small.FLOAT, [1, 1, 4, 4])}, {"roialign0": (small.FLOAT, None)})


@pytest.mark.parametrize("name", ["sampling_ratio", "output_height", "output_width"])
def test_a_region_of_too_many_points_is_refused(name: str) -> None:
    """
    Before any is listed.
    """
    with pytest.raises(TreadleError, match="points are allowed"):
        treadle.Session(roi_align(**{name: 2**31}))


def test_a_region_of_some_points_runs() -> None:
    """
    As models in use have it.
    """
    session = treadle.Session(roi_align(output_height=2, output_width=2, sampling_ratio=2))

    assert session.run({"x": np.ones((1, 1, 4, 4), np.float32)})["roialign0"].shape == (1, 1, 2, 2)


def test_no_memory_in_the_reference_is_a_memory_limit() -> None:
    """
    A window of 2**50 elements fits in no machine.
    """
    node = helper.make_node("HannWindow", ["size"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("size", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    session = treadle.Session(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))

    with pytest.raises(MemoryLimitError):
        session.run({"size": np.array(2**50)})
