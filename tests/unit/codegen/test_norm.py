"""Normalisation kernels against their references."""

from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import NoKernelError
from tests.single_node import SingleNode, blocked

from treadle.plan.target import Target

CASES: list[tuple[str, tuple[int, ...], list[tuple[int, ...] | None], dict[str, Any]]] = [
    ("layer_norm", (7, 128), [(128,), (128,)], {"axis": 1}),
    ("layer_norm", (2, 3, 50), [(50,), None], {"axis": -1}),
    ("layer_norm", (2, 3, 50), [(1, 3, 50), (3, 50)], {"axis": 1}),
    ("layer_norm", (2, 9001), [(1,), None], {"axis": 1}),
    ("layer_norm", (4, 9), [None, None], {"axis": 1}),
    ("rms_norm", (7, 128), [(128,)], {"axis": 1}),
    ("rms_norm", (7, 3), [None], {"axis": 1}),
    ("group_norm", (3, 12, 5, 7), [(12,), (12,)], {"groups": 4}),
    ("group_norm", (1, 4, 50, 50), [(4,), (4,)], {"groups": 1}),
    ("instance_norm", (3, 5, 4, 9), [(5,), (5,)], {}),
    ("instance_norm", (1, 5, 4000), [(5,), (5,)], {}),
    ("batch_norm", (2, 6, 5, 7), [(6,)] * 4, {}),
    ("batch_norm", (3, 6), [(6,)] * 4, {}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_and_groups_are_normalised(target: Target, case: Any, dtype: type) -> None:
    """
    Every family agrees with the reference, with and without scale and bias, for numbers far from zero.
    """
    op, shape, parameters, attrs = case
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) * 3 + 4).astype(dtype)
    rest = [None if size is None else rng.uniform(0.5, 2, size).astype(dtype) for size in parameters]
    tolerance = 5e-6 if dtype is np.float32 else 1e-13
    SingleNode(op, [x, *rest], {**attrs, "epsilon": 1e-5}).check(target, tolerance)


@pytest.mark.parametrize("channels", [32, 20])
def test_batch_norm_of_a_blocked_image_with_constant_statistics(target: Target, channels: int) -> None:
    """
    Constant statistics fold to one multiplication and addition that run on blocked memory.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, channels, 3, 5)).astype(np.float32)
    statistics = [rng.uniform(0.5, 2, channels).astype(np.float32) for _ in range(4)]
    layouts = (blocked(target), blocked(target))
    node = SingleNode("batch_norm", [x, *statistics], {"epsilon": 1e-5}, constants=[1, 2, 3, 4], layouts=layouts)
    node.check(target, 2e-6)


def test_a_scale_that_broadcasts_within_a_row_is_left_to_the_reference(target: Target) -> None:
    """
    A scale of [3, 1] over rows of [3, 50] has no kernel.
    """
    x, scale = np.ones((2, 3, 50), np.float32), np.ones((3, 1), np.float32)
    with pytest.raises(NoKernelError):
        SingleNode("layer_norm", [x, scale, None], {"axis": 1, "epsilon": 1e-5}).run(target)
