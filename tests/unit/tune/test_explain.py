"""Explanations of real models: what is measured fits together."""

from __future__ import annotations

import numpy as np
import pytest
from tests.models import small

import treadle
from treadle.tune.explain import Explanation, explain
from treadle.tune.peaks import measure_peaks


@pytest.fixture(scope="module")
def found() -> Explanation:
    session = treadle.Session(small.convolutional())
    (name,) = (tensor.name for tensor in session.inputs)
    shape = [dim if isinstance(dim, int) else 1 for dim in session.inputs[0].shape or ()]
    with treadle.threads.limit(intra_op=2, inter_op=2):
        return explain(session, {name: np.ones(shape, np.float32)})


def test_work_is_that_of_all_ops_and_the_longest_path_part_of_it(found: Explanation) -> None:
    assert found.threads == (2, 2)
    assert found.work_ns == sum(op.alone_ns for op in found.ops) > 0
    assert 0 < found.path_ns <= found.work_ns * (1 + 1e-9)
    assert found.most_from_inter_op >= 1


def test_convolutions_have_operations_bytes_and_shares_of_limits(found: Explanation) -> None:
    convolutions = [op for op in found.ops if op.op == "conv"]
    assert convolutions
    for op in convolutions:
        assert op.flops
        assert op.traffic
        assert op.intensity == op.flops / op.traffic
        share = op.arithmetic_share(found.peaks)
        assert share is not None
        assert share > 0
        assert op.kernel != "reference"


def test_notebooks_get_a_table(found: Explanation) -> None:
    text = found._repr_html_()
    assert "<table>" in text
    assert all(op.op in text for op in found.ops)


def test_open_sizes_are_those_of_the_inputs() -> None:
    """Operations follow the sizes of the run, not the samples of the plan."""
    writer = small.ModelWriter()
    weights = writer.constant(np.ones((64, 32), np.float32))
    writer.op("MatMul", "x", weights)
    writer.nodes[-1].output[0] = "y"
    session = treadle.Session(writer.model({"x": (small.FLOAT, ["rows", 64])}, {"y": (small.FLOAT, ["rows", 32])}))
    for rows in (3, 50):
        explanation = treadle.explain(session, {"x": np.ones((rows, 64), np.float32)})
        assert sum(op.flops or 0 for op in explanation.ops) == 2 * rows * 64 * 32


def test_peaks_are_measured_once() -> None:
    peaks = measure_peaks(1)
    assert peaks.flops_per_ns > 0.1
    assert peaks.bytes_per_ns >= peaks.core_bytes_per_ns > 0.01
    assert measure_peaks(1) is peaks
