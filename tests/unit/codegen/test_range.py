"""range: arithmetic sequences of every dtype that ONNX has."""

from typing import Any

import numpy as np
import pytest
from tests.single_node import SingleNode

from treadle import dtypes
from treadle.codegen.target import detect
from treadle.passes.lower.base import LowerContext
from treadle.passes.lower.range import lower_range
from treadle.plan.target import Target


def _node(dtype: Any, start: float, limit: float, delta: float) -> SingleNode:
    return SingleNode("range", [np.array(number, dtype) for number in (start, limit, delta)], constants=(0, 1, 2))


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.float32, np.float64])
def test_sequences_are_those_of_the_reference(target: Target, dtype: Any) -> None:
    """
    Up and down, from one element to many chunks with a remainder.
    """
    for start, limit, delta in ((0, 1, 1), (5, 40, 1), (10, -300, -3), (-7, 16_000, 2)):
        _node(dtype, start, limit, delta).check(target)
    if dtype != np.int16:
        _node(dtype, 3, 1_000_003, 3).check(target)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fractions_are_multiplied_and_added_with_two_roundings(target: Target, dtype: Any) -> None:
    """
    Bit for bit as in the reference: with one rounding, some elements would differ in their last bit.
    """
    for start, limit, delta in ((0.1, 7, 0.3), (-0.0, -5, -0.7), (1e-3, 100, 0.001), (2.5, 90, 1)):
        node = _node(dtype, start, limit, delta)
        node.check(target)
        assert node.run(target)[0].tobytes() == node.expected()[0].tobytes()


def test_integers_beyond_the_exact_floats(target: Target) -> None:
    """
    Elements of int64 are never computed in floats.
    """
    _node(np.int64, (1 << 60) + 1, (1 << 60) + 500, 7).check(target)


def test_ranges_of_other_numbers_have_no_kernel() -> None:
    """
    A start that only a run knows, and dtypes that ONNX does not have, are left to the reference.
    """
    known = _node(np.uint8, 0, 9, 1)
    open_start = SingleNode("range", [np.array(n) for n in (0, 9, 1)], constants=(0, 1, 2))
    open_start.graph.nodes[0].inputs[0] = open_start.graph.input("start", dtypes.i64, ())

    for node in (known, open_start):
        assert lower_range(node.graph.nodes[0], LowerContext(node.graph, detect())) is None
