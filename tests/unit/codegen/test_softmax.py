"""softmax and log_softmax kernels against their references."""

import numpy as np
import pytest
from tests.single_node import SingleNode

from treadle.plan.target import Target

CASES = [
    ((1,), 0),
    ((5, 1), 1),
    ((300, 10), 1),
    ((3, 16), 1),
    ((3, 17), -1),
    ((7, 1000), 1),
    ((2, 100_000), 1),
    ((2, 21, 300), 1),
    ((5, 3, 7), 0),
    ((4, 5, 6, 3), 1),
    ((33, 40), 0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_axis_is_normalised(target: Target, case: tuple[tuple[int, ...], int], op: str, dtype: type) -> None:
    """
    Rows from 1 to 100000 elements and columns of any width agree with the reference.
    """
    shape, axis = case
    x = (np.random.default_rng(0).standard_normal(shape) * 5).astype(dtype)
    SingleNode(op, [x], {"axis": axis}).check(target, 5e-6 if dtype is np.float32 else 1e-13)


@pytest.mark.parametrize("n", [5, 70])
@pytest.mark.parametrize("axis", [0, 1])
def test_masked_entries_get_nothing(target: Target, n: int, axis: int) -> None:
    """
    -inf gives exactly 0, huge values do not overflow, and a row with only -inf, or with a NaN, is NaN.
    """
    x = np.random.default_rng(0).standard_normal((4, n)).astype(np.float32) * 1000
    x[0, 1], x[1], x[2, 3] = -np.inf, -np.inf, np.nan
    node = SingleNode("softmax", [x if axis == 1 else np.ascontiguousarray(x.T)], {"axis": axis})
    node.check(target, 1e-5)
    (got,) = node.run(target)
    assert (got if axis == 1 else got.T)[0, 1] == 0


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_shares_keep_all_digits(target: Target, axis: int, dtype: type) -> None:
    """
    Shares down to the smallest normal number are within 4 ulp, smaller ones no larger than it, and those of scores
    further below the greatest are exactly 0.
    """
    kind = np.finfo(dtype)
    x = np.zeros((2, 40_000), dtype)
    x[1] = np.linspace(0, 1.2 * np.log(kind.tiny), x.shape[1])
    wide = x.astype(np.longdouble)
    truth = (np.exp(wide) / np.exp(wide).sum(0))[1]
    (got,) = SingleNode("softmax", [x if axis == 0 else np.ascontiguousarray(x.T)], {"axis": axis}).run(target)
    small = got[1] if axis == 0 else got[:, 1]
    normal = truth >= kind.tiny
    assert np.abs(small[normal] / truth[normal] - 1).max() < 4 * kind.eps
    assert small[~normal].max() <= kind.tiny
    assert not small[x[1] < np.log(kind.tiny) - 1].any()
